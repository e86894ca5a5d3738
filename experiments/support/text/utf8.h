/// UTF-8 text as characters (Unicode code points): the one place that asks utf8proc, Unicode's tables as a library.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

/// Stands for bytes that are not UTF-8.
inline constexpr char32_t replacement_character = 0xfffd;

/// The character at `position`, which is moved behind it. Where the bytes are not UTF-8 (RFC 3629: no overlong forms,
/// no surrogates, at most U+10FFFF) it is the replacement character, and `position` moves by one byte.
char32_t next_character(std::string_view text, std::size_t& position);

/// Appends the character in UTF-8.
void append_utf8(std::string& text, char32_t character);

/// The position of the first byte that is not part of valid UTF-8; npos where all are.
std::size_t invalid_utf8(std::string_view text);

/// The characters of the text, views into it. A byte that is not UTF-8 counts as a character.
std::vector<std::string_view> split_characters(std::string_view text);

/// The number of those characters.
std::int64_t character_count(std::string_view text);

/// White space: Unicode's White_Space, thus also the no-break and the ideographic space, and U+001C to U+001F.
bool is_space(char32_t character);

/// Unicode's general category of a character: "Lu", "Nd", "Mn".
std::string_view category_of(char32_t character);

/// The text in canonical decomposition (NFD) without nonspacing marks: "é" becomes "e".
std::string without_accents(std::string_view text);

/// The columns that a character takes on a terminal: 2 for East Asian wide characters and emoji, 0 for combining marks
/// and control characters, otherwise 1.
std::size_t character_width(char32_t character);

/// The sum of its characters' widths.
std::size_t display_width(std::string_view text);

/// Lower case, by Unicode's simple mapping of each character. Bytes that are not UTF-8 stay as they are.
std::string lower_case(std::string_view text);

/// Lower case by Unicode's full mapping, as Python has it: Σ at the end of a word becomes ς, and İ becomes i with a dot
/// above.
std::string lower_case_in_words(std::string_view text);

}  // namespace fovea
