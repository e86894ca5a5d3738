/// Quoting text from files or the command line in error messages.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace fovea {

/// Returns `text` in single quotes for a message of one line. Control characters and bytes that are not UTF-8 are
/// escaped ("\x0a"). After about `longest` bytes the text is cut off and ends in "...".
std::string in_quotes(std::string_view text, std::size_t longest = 80);

/// Returns `text` in single quotes, with "..." for what is further than about 40 bytes before or after the place of a
/// fault. `column` is that place, counted from 1 in bytes.
std::string in_quotes_around(std::string_view text, std::size_t column);

/// Returns a message of at most about `longest` bytes: the beginning of `text`, " ... ", and its end, where messages
/// give their reason and advice.
std::string without_middle(std::string_view text, std::size_t longest = 480);

}  // namespace fovea
