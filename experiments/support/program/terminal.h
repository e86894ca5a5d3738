/// Text on a terminal: how wide it is, and how wide the terminal is.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "experiments/support/text/utf8.h"

namespace fovea {

/// The text if it fits, otherwise its beginning with "…", in at most `columns`.
std::string shortened(std::string_view text, std::size_t columns);

/// The text on one line, with nothing in it that acts on a terminal or a page: control characters become their pictures
/// (U+2400 and on), characters that turn the direction of writing and bytes that are not UTF-8 become U+FFFD.
std::string printable(std::string_view text);

/// The words in lines of at most `width` columns (0: the terminal's, at most 100); lines after the first begin with
/// `indent` spaces, and the first one has `first_column` columns taken already.
std::string wrapped(std::string_view text, std::size_t first_column, std::size_t indent, std::size_t width = 0);

/// The columns of the terminal behind a file descriptor; $COLUMNS, then 80, where there is none.
std::size_t terminal_width(int descriptor);

/// Whether lines can be redrawn there: a terminal, and TERM is not "dumb".
bool can_redraw(int descriptor);

/// Whether colours may be printed there: can_redraw, and NO_COLOR (no-color.org) is unset or empty.
bool wants_colour(int descriptor);

}  // namespace fovea
