#include "tensor/support/in_quotes.h"

#include <algorithm>

#include <fmt/core.h>

namespace fovea {

namespace {

/// Returns the number of bytes of the UTF-8 character that `text` begins with; 0 if it is a control character or the
/// bytes are not UTF-8.
std::size_t printable_length(std::string_view text) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) < 0x20 || byte(0) == 0x7f ? 0 : 1;
  std::size_t length = byte(0) >= 0xf8 ? 0 : byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : byte(0) >= 0xc2 ? 2 : 0;
  if (length == 0 || length > text.size() || (byte(0) == 0xc2 && byte(1) < 0xa0)) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return length;
}

/// Whether text[at] continues a UTF-8 character. False at the end of the text.
bool is_inside_character(std::string_view text, std::size_t at) {
  return at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

}  // namespace

std::string in_quotes(std::string_view text, std::size_t longest) {
  std::string out = "'";
  std::size_t at = 0;
  while (at < text.size() && at < longest) {
    std::size_t length = printable_length(text.substr(at));
    if (length > 0)
      out += text.substr(at, length);
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    at += std::max<std::size_t>(length, 1);
  }
  return out + (at < text.size() ? "...'" : "'");
}

std::string in_quotes_around(std::string_view text, std::size_t column) {
  constexpr std::size_t longest = 80;
  std::size_t after = std::min(text.size(), std::max(longest, column + longest / 2));
  std::size_t before = after > longest ? after - longest : 0;
  while (before > 0 && is_inside_character(text, before)) --before;
  while (is_inside_character(text, after)) ++after;
  std::string shown = (before > 0 ? "..." : "") + std::string(text.substr(before, after - before));
  if (after < text.size()) shown += "...";
  return in_quotes(shown, shown.size());
}

std::string without_middle(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return std::string(text);
  std::size_t before = longest / 2, after = text.size() - longest / 2;
  while (is_inside_character(text, before)) --before;
  while (is_inside_character(text, after)) ++after;
  return fmt::format("{} ... {}", text.substr(0, before), text.substr(after));
}

}  // namespace fovea
