#include "experiments/support/program/terminal.h"

#include <algorithm>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

#include "experiments/support/text/words.h"

namespace fovea {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::string shortened(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  std::size_t end = 0, width = 0;
  for (std::size_t at = 0; at < text.size(); end = at) {
    width += character_width(next_character(text, at));
    if (width > columns - 1) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string printable(std::string_view text) {
  constexpr char32_t picture_of_nul = 0x2400, picture_of_delete = 0x2421;
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
      c = replacement_character;
    }
    append_utf8(result, c);
  }
  return result;
}

std::string wrapped(std::string_view text, std::size_t first_column, std::size_t indent, std::size_t width) {
  constexpr std::size_t widest = 100, narrowest_column = 20;
  if (width == 0) width = std::max(std::min(terminal_width(STDOUT_FILENO), widest), indent + narrowest_column);
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
  const std::size_t width = leading_number<std::size_t>(environment("COLUMNS")).value_or(0);
  return width > 0 ? width : usual;
}

bool can_redraw(int descriptor) { return ::isatty(descriptor) && environment("TERM") != "dumb"; }

}  // namespace fovea
