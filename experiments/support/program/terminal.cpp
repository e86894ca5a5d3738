#include "experiments/support/program/terminal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

namespace fovea {
namespace {

struct Range {
  char32_t first, last;
};

// The blocks that matter for tokens of the corpora, not all of Unicode's tables.
constexpr std::array<Range, 13> combining{{{0x300, 0x36f},
                                           {0x483, 0x489},
                                           {0x591, 0x5bd},
                                           {0x610, 0x61a},
                                           {0x64b, 0x65f},
                                           {0x93c, 0x93c},
                                           {0xe34, 0xe3a},
                                           {0x1ab0, 0x1aff},
                                           {0x200b, 0x200f},
                                           {0x202a, 0x202e},
                                           {0x20d0, 0x20ff},
                                           {0xfe00, 0xfe0f},
                                           {0xfeff, 0xfeff}}};
constexpr std::array<Range, 11> wide{{{0x1100, 0x115f},
                                      {0x2e80, 0x303e},
                                      {0x3041, 0x33ff},
                                      {0x3400, 0x4dbf},
                                      {0x4e00, 0x9fff},
                                      {0xa000, 0xa4cf},
                                      {0xac00, 0xd7a3},
                                      {0xf900, 0xfaff},
                                      {0xff00, 0xff60},
                                      {0x1f300, 0x1faff},
                                      {0x20000, 0x3fffd}}};

template <std::size_t N>
bool is_in(const std::array<Range, N>& ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(), [&](Range r) { return c >= r.first && c <= r.last; });
}

std::size_t columns_of(char32_t c) {
  bool is_control = c < 0x20 || (c >= 0x7f && c < 0xa0);
  if (is_control || is_in(combining, c)) return 0;
  return is_in(wide, c) ? 2 : 1;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

char32_t next_character(std::string_view text, std::size_t& position) {
  constexpr char32_t invalid = 0xfffd;
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(position++);
  if (lead < 0x80) return lead;
  std::size_t following = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  if (lead < 0xc2 || lead > 0xf4 || position + following > text.size()) return invalid;
  char32_t c = lead & (0x3f >> following);
  for (std::size_t i = 0; i < following; ++i) {
    if ((byte(position + i) & 0xc0) != 0x80) return invalid;
    c = (c << 6) | (byte(position + i) & 0x3f);
  }
  bool overlong = (following == 2 && c < 0x800) || (following == 3 && c < 0x10000);
  bool is_surrogate = c >= 0xd800 && c <= 0xdfff;
  if (overlong || is_surrogate || c > 0x10ffff) return invalid;
  position += following;
  return c;
}

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += char(c);
  } else if (c < 0x800) {
    text += {char(0xc0 | (c >> 6)), char(0x80 | (c & 0x3f))};
  } else if (c < 0x10000) {
    text += {char(0xe0 | (c >> 12)), char(0x80 | ((c >> 6) & 0x3f)), char(0x80 | (c & 0x3f))};
  } else {
    text += {char(0xf0 | (c >> 18)), char(0x80 | ((c >> 12) & 0x3f)), char(0x80 | ((c >> 6) & 0x3f)),
             char(0x80 | (c & 0x3f))};
  }
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) width += columns_of(next_character(text, at));
  return width;
}

std::string shortened(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  std::size_t end = 0, width = 0;
  for (std::size_t at = 0; at < text.size(); end = at) {
    width += columns_of(next_character(text, at));
    if (width > columns - 1) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string printable(std::string_view text) {
  constexpr char32_t picture_of_nul = 0x2400, picture_of_delete = 0x2421, replacement = 0xfffd;
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    char32_t c = next_character(text, at);
    bool turns_direction = (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
    bool is_late_control = c >= 0x80 && c < 0xa0;
    bool is_no_character = c == 0xfffe || c == 0xffff;  // XML refuses them
    if (c < 0x20) {
      c += picture_of_nul;
    } else if (c == 0x7f) {
      c = picture_of_delete;
    } else if (turns_direction || is_late_control || is_no_character) {
      c = replacement;
    }
    append_utf8(result, c);
  }
  return result;
}

std::string wrapped(std::string_view text, std::size_t first_column, std::size_t indent, std::size_t width) {
  constexpr std::size_t widest = 100, narrowest_column = 20;
  if (width == 0) width = std::min(terminal_width(STDOUT_FILENO), widest);
  width = std::max(width, indent + narrowest_column);
  std::string result;
  std::size_t column = first_column;
  bool line_is_empty = true;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find(' ', at), text.size());
    std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (!line_is_empty && column + 1 + display_width(word) > width) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
      line_is_empty = true;
    }
    if (!line_is_empty) result += ' ';
    result += word;
    column += display_width(word) + (line_is_empty ? 0 : 1);
    line_is_empty = false;
  }
  return result;
}

std::size_t terminal_width(int descriptor) {
  winsize size = {};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  constexpr std::size_t usual = 80;
  std::string columns = environment("COLUMNS");
  std::size_t width = 0;
  std::from_chars(columns.data(), columns.data() + columns.size(), width);
  return width > 0 ? width : usual;
}

bool can_redraw(int descriptor) { return ::isatty(descriptor) && environment("TERM") != "dumb"; }

bool wants_colour(int descriptor) { return can_redraw(descriptor) && environment("NO_COLOR").empty(); }

}  // namespace fovea
