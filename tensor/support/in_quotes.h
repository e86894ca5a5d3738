/// Quoting text from files or the command line in error messages.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace fovea {

/// Returns `text` in single quotes for a message of one line. Control characters and bytes that are not UTF-8 are
/// escaped ("\x0a"). After about `longest` bytes the text is cut off and ends in "...".
std::string in_quotes(std::string_view text, std::size_t longest = 80);

}  // namespace fovea
