/// Text on a terminal: how wide it is, and how wide the terminal is.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "experiments/support/text/utf8.h"

namespace fovea {

/// The text if it has at most `columns` columns, otherwise its beginning with "…".
std::string shortened(std::string_view text, std::size_t columns);

/// The text on one line, with nothing in it that acts on a terminal or a page: control characters become their pictures
/// (U+2400 and on), characters that turn the direction of writing and bytes that are not UTF-8 become U+FFFD.
std::string printable(std::string_view text);

/// The words in lines of at most `width` columns (0: the terminal's, at most 100). Lines after the first begin with
/// `indent` spaces; `first_column` columns of the first line are already used.
std::string wrapped(std::string_view text, std::size_t first_column, std::size_t indent, std::size_t width = 0);

/// The columns of the terminal of a file descriptor; without a terminal $COLUMNS or 80.
std::size_t terminal_width(int descriptor);

/// Whether lines can be redrawn: the descriptor is a terminal, and TERM is not "dumb".
bool can_redraw(int descriptor);

}  // namespace fovea
