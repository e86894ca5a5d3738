/// Text from outside, as messages show it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace fovea {

/// Made fit for a message of one line: in quotes, what cannot be printed escaped, cut after `longest` bytes.
std::string in_quotes(std::string_view text, std::size_t longest = 80);

}  // namespace fovea
