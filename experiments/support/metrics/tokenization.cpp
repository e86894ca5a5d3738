#include "experiments/support/metrics/tokenization.h"

#include <array>
#include <utility>

#include "experiments/support/metrics/unicode_tokenization.h"
#include "experiments/support/text/utf8.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_period_or_comma(char c) { return c == '.' || c == ','; }

std::string replaced(std::string_view text, std::string_view part, std::string_view by) {
  std::string result;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(part, begin)) != std::string_view::npos; begin = end + part.size()) {
    result += text.substr(begin, end - begin);
    result += by;
  }
  return result += text.substr(begin);
}

/// Puts spaces around ASCII punctuation, except ' , - and .
std::string with_space_around_punctuation(std::string_view text) {
  constexpr std::string_view punctuation = "{|}~[\\]^_`!\"#$%&()*+:;<=>?@/";
  std::string result;
  for (char c : text) {
    if (punctuation.find(c) == std::string_view::npos) {
      result += c;
    } else {
      result.append({' ', c, ' '});
    }
  }
  return result;
}

/// Puts spaces into pairs of characters that match, as a regular expression that matches both characters does: the
/// second character of a match is not the first of another.
template <class Matches>
std::string rewritten_pairs(std::string_view text, Matches matches, bool space_before_first, bool space_in_between,
                            bool space_behind_second) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !matches(text[i], text[i + 1])) {
      result += text[i];
      continue;
    }
    if (space_before_first) result += ' ';
    result += text[i];
    if (space_in_between) result += ' ';
    result += text[++i];
    if (space_behind_second) result += ' ';
  }
  return result;
}

/// The rules of mteval-v13a for Western languages, which sacreBLEU's zh also applies.
std::string western_tokens(std::string_view line) {
  std::string text = with_space_around_punctuation(line);
  auto not_behind_digit = [](char a, char b) { return !is_digit(a) && is_period_or_comma(b); };
  auto not_before_digit = [](char a, char b) { return is_period_or_comma(a) && !is_digit(b); };
  auto dash_behind_digit = [](char a, char b) { return is_digit(a) && b == '-'; };
  text = rewritten_pairs(text, not_behind_digit, false, true, true);
  text = rewritten_pairs(text, not_before_digit, true, true, false);
  return rewritten_pairs(text, dash_behind_digit, false, true, true);
}

std::string mteval_13a(std::string_view line) {
  std::string text = " " + replaced(line, "<skipped>", "") + " ";
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> entities = {
      {{"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}}};
  for (const auto& [entity, character] : entities) text = replaced(text, entity, character);
  return western_tokens(text);
}

/// Removes white space at both ends, as sacreBLEU's zh does. A period that ends the line is then not split off.
std::string_view without_outer_spaces(std::string_view text) {
  const std::vector<std::string_view> words = split_words(text);
  if (words.empty()) return {};
  return {words.front().data(), std::size_t(words.back().data() + words.back().size() - words.front().data())};
}

std::string characters(std::string_view text) {
  std::string result;
  for (std::string_view character : split_characters(text)) {
    result += ' ';
    result += character;
  }
  return result;
}

}  // namespace

std::string tokenized(std::string_view text, Tokenization how) {
  switch (how) {
    case Tokenization::none:
      return std::string(text);
    case Tokenization::mteval_13a:
      return mteval_13a(text);
    case Tokenization::characters:
      return characters(text);
    case Tokenization::international:
      return international_tokens(text);
    case Tokenization::chinese:
      return western_tokens(with_spaces_around_chinese(without_outer_spaces(text)));
  }
  return std::string(text);
}

std::vector<std::pair<std::string, Tokenization>> named_tokenizations() {
  return {{"none", Tokenization::none},
          {"13a", Tokenization::mteval_13a},
          {"char", Tokenization::characters},
          {"intl", Tokenization::international},
          {"zh", Tokenization::chinese}};
}

std::string name_of(Tokenization how) {
  for (const auto& [name, tokenization] : named_tokenizations())
    if (tokenization == how) return name;
  return "";
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
