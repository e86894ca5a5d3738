/// Words without their endings: Porter 1980, "An algorithm for suffix stripping".
#pragma once
#include <string>
#include <string_view>

namespace fovea {

/// The stem of a word of lower-case ASCII letters, with the departures of the author's own program (bli to ble, logi to
/// log), which ROUGE-1.5.5 has as well. Words of one or two letters stay as they are.
std::string porter_stem(std::string_view word);

}  // namespace fovea
