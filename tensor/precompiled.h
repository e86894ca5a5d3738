/// The precompiled header: standard headers that most files include, which the compiler parses only once. Every file
/// still includes the headers that it uses, so that a build with -Db_pch=false works too.
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
