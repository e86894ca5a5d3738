/// Comma-separated values.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

/// A field in the format of RFC 4180: quoted if it contains a comma, a quote or a line break.
std::string csv_field(std::string_view text);

/// The fields with commas between them and a line break at the end.
std::string csv_row(const std::vector<std::string>& fields);

}  // namespace fovea
