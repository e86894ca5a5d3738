#include "experiments/support/metrics/unicode_tokenization.h"

#include <algorithm>
#include <iterator>

#include <utf8proc.h>

namespace fovea {

namespace {

std::u32string decoded(std::string_view text) {
  constexpr char32_t replacement_character = 0xfffd;
  std::u32string characters;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t character = 0;
    const auto length = utf8proc_iterate(bytes + at, utf8proc_ssize_t(text.size() - at), &character);
    characters += length > 0 ? char32_t(character) : replacement_character;
    at += length > 0 ? std::size_t(length) : 1;
  }
  return characters;
}

std::string encoded(std::u32string_view characters) {
  std::string text;
  for (char32_t character : characters) {
    utf8proc_uint8_t bytes[4];
    const auto length = utf8proc_encode_char(utf8proc_int32_t(character), bytes);
    text.append(reinterpret_cast<const char*>(bytes), std::size_t(length));
  }
  return text;
}

/// Whether the first letter of the character's general category is this one: N number, P punctuation, S symbol.
bool is_of_category(char32_t character, char first_letter) {
  return utf8proc_category_string(utf8proc_int32_t(character))[0] == first_letter;
}
bool is_number(char32_t c) { return is_of_category(c, 'N'); }
bool is_punctuation(char32_t c) { return is_of_category(c, 'P'); }
bool is_symbol(char32_t c) { return is_of_category(c, 'S'); }

/// Puts spaces around one character, the first or the second, of each pair that matches. Goes through the text from the
/// left; the second character of a match is not the first of another.
template <class Matches>
std::u32string with_spaces_in_pairs(std::u32string_view text, Matches matches, bool around_first) {
  std::u32string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !matches(text[i], text[i + 1])) {
      result += text[i];
    } else if (around_first) {
      result.append({U' ', text[i], U' ', text[i + 1]});
      ++i;
    } else {
      result.append({text[i], U' ', text[i + 1], U' '});
      ++i;
    }
  }
  return result;
}

template <class Matches>
std::u32string with_spaces_around(std::u32string_view text, Matches matches) {
  std::u32string result;
  for (char32_t character : text) {
    if (matches(character)) {
      result.append({U' ', character, U' '});
    } else {
      result += character;
    }
  }
  return result;
}

/// sacreBLEU's table. Two of its ranges are meant to be ideographs beyond U+FFFF, but Python reads "\u20000" as U+2000
/// and the digit 0: U+2001 to U+2A6D count as Chinese, which include dashes and curly quotes, and such ideographs do
/// not.
bool counts_as_chinese(char32_t character) {
  struct Range {
    char32_t first, last;
  };
  constexpr Range ranges[] = {{0x2001, 0x2a6d}, {0x2e80, 0x2fdf}, {0x2ff0, 0x303f}, {0x3100, 0x312f}, {0x31a0, 0x31bf},
                              {0x31c0, 0x31ef}, {0x3200, 0x4db5}, {0x4e00, 0x9fbb}, {0xf900, 0xfa2d}, {0xfa30, 0xfa6a},
                              {0xfa70, 0xfad9}, {0xfe10, 0xfe1f}, {0xfe30, 0xfe4f}, {0xff00, 0xffef}};
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [=](Range range) { return range.first <= character && character <= range.last; });
}

}  // namespace

std::string international_tokens(std::string_view text) {
  std::u32string characters = decoded(text);
  characters = with_spaces_in_pairs(
      characters, [](char32_t a, char32_t b) { return !is_number(a) && is_punctuation(b); }, false);
  characters = with_spaces_in_pairs(
      characters, [](char32_t a, char32_t b) { return is_punctuation(a) && !is_number(b); }, true);
  return encoded(with_spaces_around(characters, is_symbol));
}

std::string with_spaces_around_chinese(std::string_view text) {
  return encoded(with_spaces_around(decoded(text), counts_as_chinese));
}

}  // namespace fovea
