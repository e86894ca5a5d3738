/// Headers of the standard library and of fmt that most files include: the precompiled header of the programs. Every
/// file still includes the headers that it uses, so that a build with -Db_pch=false works too.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
