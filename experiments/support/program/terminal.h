/// Text on a terminal: how wide it is, and how wide the terminal is.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace fovea {

/// Columns that UTF-8 text takes: 2 for East Asian wide characters and emoji, 0 for combining marks and control
/// characters, 1 for anything else and for each byte that is not UTF-8.
std::size_t display_width(std::string_view text);

/// The text if it fits, otherwise its beginning with "…", in at most `columns`.
std::string shortened(std::string_view text, std::size_t columns);

/// The text on one line, with nothing in it that acts on a terminal or a page: control characters become their pictures
/// (U+2400 and on), characters that turn the direction of writing and what is not UTF-8 become U+FFFD.
std::string printable(std::string_view text);

/// The words in lines of at most `width` columns (0: the terminal's, at most 100); lines after the first begin with
/// `indent` spaces, and the first one has `first_column` columns taken already.
std::string wrapped(std::string_view text, std::size_t first_column, std::size_t indent, std::size_t width = 0);

/// The columns of the terminal behind a file descriptor; $COLUMNS, then 80, where there is none.
std::size_t terminal_width(int descriptor);

/// Whether lines can be redrawn there: a terminal, and TERM is not "dumb".
bool can_redraw(int descriptor);

/// Whether colours are welcome there: can_redraw, and NO_COLOR (no-color.org) is unset or empty.
bool wants_colour(int descriptor);

/// The next character of UTF-8 text at `position`, which is moved behind it; U+FFFD, one byte on, where it is no UTF-8.
char32_t next_character(std::string_view text, std::size_t& position);

/// Appends the character in UTF-8.
void append_utf8(std::string& text, char32_t character);

}  // namespace fovea
