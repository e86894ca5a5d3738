#include "experiments/support/metrics/tokenization.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "experiments/support/text/utf8.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

std::u32string decoded(std::string_view text) {
  std::u32string characters;
  for (std::size_t at = 0; at < text.size();) characters += next_character(text, at);
  return characters;
}

std::string encoded(std::u32string_view characters) {
  std::string text;
  for (char32_t character : characters) append_utf8(text, character);
  return text;
}

/// Whether the first letter of the character's general category is this one: N number, P punctuation, S symbol.
bool is_of_category(char32_t character, char first_letter) { return category_of(character)[0] == first_letter; }
bool is_number(char32_t c) { return is_of_category(c, 'N'); }
bool is_punctuation(char32_t c) { return is_of_category(c, 'P'); }
bool is_symbol(char32_t c) { return is_of_category(c, 'S'); }

// mteval's classes: ASCII digits, and punctuation except ' , - and .
bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_period_or_comma(char32_t c) { return c == '.' || c == ','; }
bool is_mteval_punctuation(char32_t c) {
  return std::u32string_view(U"{|}~[\\]^_`!\"#$%&()*+:;<=>?@/").find(c) != std::u32string_view::npos;
}

/// sacreBLEU's table of Chinese characters. Two of its ranges are meant to be ideographs beyond U+FFFF, but Python
/// reads "\u20000" as U+2000 and the digit 0: U+2001 to U+2A6D count as Chinese, which include dashes and curly quotes,
/// and such ideographs do not.
bool counts_as_chinese(char32_t character) {
  constexpr std::array<char32_t, 2> ranges[] = {{0x2001, 0x2a6d}, {0x2e80, 0x2fdf}, {0x2ff0, 0x303f}, {0x3100, 0x312f},
                                                {0x31a0, 0x31bf}, {0x31c0, 0x31ef}, {0x3200, 0x4db5}, {0x4e00, 0x9fbb},
                                                {0xf900, 0xfa2d}, {0xfa30, 0xfa6a}, {0xfa70, 0xfad9}, {0xfe10, 0xfe1f},
                                                {0xfe30, 0xfe4f}, {0xff00, 0xffef}};
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [=](const auto& range) { return range[0] <= character && character <= range[1]; });
}

std::u32string with_spaces_around(std::u32string_view text, bool (*matches)(char32_t)) {
  std::u32string result;
  for (char32_t character : text) matches(character) ? result.append({U' ', character, U' '}) : result += character;
  return result;
}

/// Puts spaces around one character, the first or the second, of each pair that matches. Goes through the text from the
/// left, as a regular expression that matches both characters does: the second one of a match is not the first of
/// another.
template <class Matches>
std::u32string with_spaces_in_pairs(std::u32string_view text, bool around_first, Matches matches) {
  std::u32string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !matches(text[i], text[i + 1])) {
      result += text[i];
      continue;
    }
    around_first ? result.append({U' ', text[i], U' ', text[i + 1]})
                 : result.append({text[i], U' ', text[i + 1], U' '});
    ++i;
  }
  return result;
}

/// The rules of mteval-v13a for Western languages, which sacreBLEU's zh also applies.
std::u32string western_tokens(std::u32string_view line) {
  std::u32string text = with_spaces_around(line, is_mteval_punctuation);
  text = with_spaces_in_pairs(text, false, [](auto a, auto b) { return !is_digit(a) && is_period_or_comma(b); });
  text = with_spaces_in_pairs(text, true, [](auto a, auto b) { return is_period_or_comma(a) && !is_digit(b); });
  return with_spaces_in_pairs(text, false, [](auto a, auto b) { return is_digit(a) && b == '-'; });
}

std::string mteval_13a(std::string_view line) {
  std::string text = " " + std::string(line) + " ";
  constexpr std::pair<std::string_view, std::string_view> replaced[] = {
      {"<skipped>", ""}, {"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}};
  for (const auto& [part, by] : replaced)
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += by.size())
      text.replace(at, part.size(), by);
  return encoded(western_tokens(decoded(text)));
}

/// mteval-v14 with --international-tokenization: spaces around punctuation that does not stand between two numbers, and
/// around symbols. sacreBLEU removes white space at the end of a line first. A period behind a number that ends the
/// line is then not split off.
std::string international_tokens(std::string_view text) {
  std::u32string characters = decoded(text);
  while (!characters.empty() && is_space(characters.back())) characters.pop_back();
  characters =
      with_spaces_in_pairs(characters, false, [](auto a, auto b) { return !is_number(a) && is_punctuation(b); });
  characters =
      with_spaces_in_pairs(characters, true, [](auto a, auto b) { return is_punctuation(a) && !is_number(b); });
  return encoded(with_spaces_around(characters, is_symbol));
}

/// sacreBLEU's zh removes white space at both ends first. A period that ends the line is then not split off.
std::string chinese_tokens(std::string_view text) {
  const std::vector<std::string_view> words = split_words(text);
  if (words.empty()) return "";
  const char* end = words.back().data() + words.back().size();
  const std::string_view inner(words.front().data(), std::size_t(end - words.front().data()));
  return encoded(western_tokens(with_spaces_around(decoded(inner), counts_as_chinese)));
}

std::string characters(std::string_view text) {
  std::string result;
  for (std::string_view character : split_characters(text)) result.append(" ").append(character);
  return result;
}

/// An entry of `tokenizations`, which is in the order of Tokenization.
struct NamedTokenization {
  const char* name;
  std::string (*of)(std::string_view text);
};
constexpr NamedTokenization tokenizations[] = {{"none", [](std::string_view text) { return std::string(text); }},
                                               {"13a", mteval_13a},
                                               {"char", characters},
                                               {"intl", international_tokens},
                                               {"zh", chinese_tokens}};

}  // namespace

std::string tokenized(std::string_view text, Tokenization how) { return tokenizations[int(how)].of(text); }

std::string name_of(Tokenization how) { return tokenizations[int(how)].name; }

std::vector<std::pair<std::string, Tokenization>> named_tokenizations() {
  std::vector<std::pair<std::string, Tokenization>> named;
  for (const NamedTokenization& one : tokenizations) named.emplace_back(one.name, Tokenization(named.size()));
  return named;
}

Tokenization tokenization_of(const std::string& name) {
  for (const auto& [known, tokenization] : named_tokenizations())
    if (known == name) return tokenization;
  fail("there is no tokenization '{}'", name);
}

std::string split_compounds(std::string_view text) {
  auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (i + 2 >= text.size() || is_space(text[i]) || text[i + 1] != '-' || is_space(text[i + 2])) continue;
    result += " ##AT##-##AT## ";
    result += text[i += 2];
  }
  return result;
}

}  // namespace fovea
