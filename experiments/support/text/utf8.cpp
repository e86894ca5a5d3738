#include "experiments/support/text/utf8.h"

#include <algorithm>

#include <utf8proc.h>

namespace fovea {

namespace {

/// A character and its bytes in UTF-8; no bytes where the text does not begin with UTF-8.
struct Decoded {
  utf8proc_int32_t character = 0;
  std::size_t bytes = 0;
};

Decoded first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {lead, 1};  // most text is ASCII, which needs no library
  Decoded result;
  const auto* begin = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto length = utf8proc_iterate(begin, static_cast<utf8proc_ssize_t>(text.size()), &result.character);
  if (length > 0) result.bytes = std::size_t(length);
  return result;
}

}  // namespace

char32_t next_character(std::string_view text, std::size_t& position) {
  const Decoded next = first_character(text.substr(position));
  position += std::max<std::size_t>(next.bytes, 1);
  return next.bytes == 0 ? replacement_character : char32_t(next.character);
}

void append_utf8(std::string& text, char32_t character) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
  text.append(reinterpret_cast<const char*>(bytes), std::size_t(length));
}

std::size_t invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = first_character(text.substr(at)).bytes;
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::string_view::npos;
}

std::vector<std::string_view> split_characters(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    next_character(text, end);
    characters.push_back(text.substr(begin, end - begin));
  }
  return characters;
}

std::int64_t character_count(std::string_view text) {
  std::int64_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) next_character(text, at);
  return count;
}

bool is_space(char32_t character) {
  if (character < 0x80)
    return character == ' ' || (character >= 0x09 && character <= 0x0d) || (character >= 0x1c && character <= 0x1f);
  if (character == 0x85) return true;  // next line, which Unicode calls a control character
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

std::string_view category_of(char32_t character) {
  return utf8proc_category_string(static_cast<utf8proc_int32_t>(character));
}

std::string without_accents(std::string_view text) {
  constexpr std::size_t longest = 32;  // the longest decomposition of a character has 4 characters
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = static_cast<utf8proc_int32_t>(next_character(text, at));
    utf8proc_int32_t parts[longest];
    int last_class = UTF8PROC_BOUNDCLASS_START;
    const auto count = utf8proc_decompose_char(character, parts, longest, UTF8PROC_DECOMPOSE, &last_class);
    for (utf8proc_ssize_t k = 0; k < count; ++k)
      if (category_of(char32_t(parts[k])) != "Mn") append_utf8(result, char32_t(parts[k]));
  }
  return result;
}

std::size_t character_width(char32_t character) {
  return std::size_t(utf8proc_charwidth(static_cast<utf8proc_int32_t>(character)));
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) width += character_width(next_character(text, at));
  return width;
}

std::string lower_case(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    const char32_t character = next_character(text, end);
    if (character < 0x80) {
      result += char(character >= 'A' && character <= 'Z' ? character + ('a' - 'A') : character);
      continue;
    }
    const auto lower = char32_t(utf8proc_tolower(static_cast<utf8proc_int32_t>(character)));
    if (lower == character) {
      result += text.substr(begin, end - begin);
    } else {
      append_utf8(result, lower);
    }
  }
  return result;
}

std::string lower_case_in_words(std::string_view text) {
  std::u32string characters;
  for (std::size_t at = 0; at < text.size();) characters += next_character(text, at);
  // Marks and such belong to the letter before them, so they do not end a word; nor do these signs inside of words.
  constexpr std::u32string_view inside_words = U"'.:·\u0387\u055F\u05F4‘’\u2024‧\uFE13\uFE52\uFE55＇．：";
  const auto has_letter = [&](std::size_t at, std::size_t step) {
    for (at += step; at < characters.size(); at += step) {
      const std::string_view category = category_of(characters[at]);
      const char32_t c = characters[at];
      const bool is_passed_over = category == "Mn" || category == "Me" || category == "Cf" || category == "Lm" ||
                                  category == "Sk" || inside_words.find(c) != inside_words.npos;
      const bool is_roman = U'Ⅰ' <= c && c <= U'ⅿ', is_circled = U'Ⓐ' <= c && c <= U'ⓩ';
      if (!is_passed_over)
        return category == "Lu" || category == "Ll" || category == "Lt" || is_roman || is_circled || c == U'ª' ||
               c == U'º';
    }
    return false;
  };
  std::string result;
  for (std::size_t at = 0; at < characters.size(); ++at) {
    const bool is_last_sigma = characters[at] == U'Σ' && has_letter(at, std::size_t(-1)) && !has_letter(at, 1);
    append_utf8(result, is_last_sigma ? U'ς' : characters[at] == U'İ' ? U'i' : characters[at]);
    if (characters[at] == U'İ') append_utf8(result, U'\u0307');
  }
  return lower_case(result);
}

}  // namespace fovea
