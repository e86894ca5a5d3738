#include "experiments/support/metrics/tokenization.h"

#include <array>
#include <utility>

#include "experiments/support/text/utf8.h"
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

/// ASCII punctuation but ' , - and .
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

/// As a regular expression does it whose match is both characters: the second is not looked at again as a first.
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

std::string mteval_13a(std::string_view line) {
  std::string text = " " + replaced(line, "<skipped>", "") + " ";
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> entities = {
      {{"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}}};
  for (const auto& [entity, character] : entities) text = replaced(text, entity, character);
  text = with_space_around_punctuation(text);
  auto not_behind_digit = [](char a, char b) { return !is_digit(a) && is_period_or_comma(b); };
  auto not_before_digit = [](char a, char b) { return is_period_or_comma(a) && !is_digit(b); };
  auto dash_behind_digit = [](char a, char b) { return is_digit(a) && b == '-'; };
  text = rewritten_pairs(text, not_behind_digit, false, true, true);
  text = rewritten_pairs(text, not_before_digit, true, true, false);
  return rewritten_pairs(text, dash_behind_digit, false, true, true);
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
  if (how == Tokenization::mteval_13a) return mteval_13a(text);
  if (how == Tokenization::characters) return characters(text);
  return std::string(text);
}

std::vector<std::pair<std::string, Tokenization>> named_tokenizations() {
  return {{"none", Tokenization::none}, {"13a", Tokenization::mteval_13a}, {"char", Tokenization::characters}};
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
