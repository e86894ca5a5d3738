#include "experiments/support/text/words.h"

#include <cstdint>

#include <fmt/core.h>

namespace fovea {

namespace {

/// Bytes of the white-space character that starts the text, or 0.
std::size_t space_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  if (byte(0) == ' ' || (byte(0) >= 0x09 && byte(0) <= 0x0d) || (byte(0) >= 0x1c && byte(0) <= 0x1f)) return 1;
  if (byte(0) == 0xc2 && (byte(1) == 0x85 || byte(1) == 0xa0)) return 2;  // next line, no-break space
  if (byte(0) == 0xe1 && byte(1) == 0x9a && byte(2) == 0x80) return 3;    // ogham space
  if (byte(0) == 0xe2 && byte(1) == 0x80) {                               // U+2000-200A, 2028, 2029, 202F
    return (byte(2) >= 0x80 && byte(2) <= 0x8a) || byte(2) == 0xa8 || byte(2) == 0xa9 || byte(2) == 0xaf ? 3 : 0;
  }
  if (byte(0) == 0xe2 && byte(1) == 0x81 && byte(2) == 0x9f) return 3;  // mathematical space
  if (byte(0) == 0xe3 && byte(1) == 0x80 && byte(2) == 0x80) return 3;  // ideographic space
  return 0;
}

/// Lower case of a character of the two-byte range of UTF-8, U+0080 to U+07FF.
std::uint32_t lower(std::uint32_t c) {
  if (c >= 0xc0 && c <= 0xde && c != 0xd7) return c + 32;  // Latin-1, not the multiplication sign
  if (c == 0x130 || c == 0x131 || c == 0x138 || c == 0x149 || c == 0x17f) return c;  // no partner of their own
  if (c == 0x178) return 0xff;
  if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return c % 2 == 1 ? c + 1 : c;
  if (c >= 0x100 && c <= 0x177) return c % 2 == 0 ? c + 1 : c;
  if (c == 0x386) return 0x3ac;  // Greek capitals with accent
  if (c >= 0x388 && c <= 0x38a) return c + 37;
  if (c == 0x38c) return 0x3cc;
  if (c == 0x38e || c == 0x38f) return c + 63;
  if (c >= 0x391 && c <= 0x3ab && c != 0x3a2) return c + 32;
  if (c >= 0x400 && c <= 0x40f) return c + 80;  // Cyrillic
  if (c >= 0x410 && c <= 0x42f) return c + 32;
  if ((c >= 0x460 && c <= 0x481) || (c >= 0x48a && c <= 0x4bf) || (c >= 0x4d0 && c <= 0x52f)) return c | 1;
  return c;
}

}  // namespace

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t begin = 0, i = 0;
  while (i < text.size()) {
    const std::size_t space = space_length(text.substr(i, 3));
    if (space > 0) {
      if (i > begin) words.push_back(text.substr(begin, i - begin));
      begin = i + space;
    }
    i += space > 0 ? space : 1;
  }
  if (begin < text.size()) words.push_back(text.substr(begin));
  return words;
}

std::string join_words(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto byte = static_cast<unsigned char>(result[i]);
    if (byte >= 'A' && byte <= 'Z') result[i] = static_cast<char>(byte + 32);
    if (byte >= 0xc2 && byte <= 0xdf && i + 1 < result.size()) {
      const std::uint32_t c = lower((byte & 0x1fu) << 6 | (static_cast<unsigned char>(result[i + 1]) & 0x3fu));
      result[i] = static_cast<char>(0xc0 | c >> 6);
      result[++i] = static_cast<char>(0x80 | (c & 0x3f));
    }
  }
  return result;
}

std::vector<std::string_view> split_columns(std::string_view line, char separator) {
  std::vector<std::string_view> columns;
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find(separator, begin);
    columns.push_back(line.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return columns;
    begin = end + 1;
  }
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string listed(std::span<const std::string> items, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? last : std::string_view(", ");
    text += items[i];
  }
  return text;
}

}  // namespace fovea
