#include "experiments/support/metrics/lead.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "experiments/support/text/words.h"

namespace fovea {

namespace {

constexpr std::array<std::string_view, 11> abbreviations = {"mr",  "mrs", "ms", "dr", "prof", "sen",
                                                            "gen", "st",  "jr", "vs", "inc"};

constexpr std::array<std::string_view, 7> closing_signs = {"''", "\"", "'", ")", "]", "”", "’"};

bool closes(std::string_view word) {
  return std::ranges::count(closing_signs, word) > 0 || word == "-rrb-" || word == "-RRB-";
}

std::string_view without_closing(std::string_view word) {
  for (std::string_view sign : closing_signs)
    while (word.size() > sign.size() && word.ends_with(sign)) word.remove_suffix(sign.size());
  return word;
}

bool is_abbreviation(std::string_view word_before_point) {
  const std::string lower = lower_case(word_before_point);
  const std::vector<std::string_view> parts = split_columns(lower, '.');  // U.S, e.g
  const auto is_letter = [](std::string_view part) {
    return part.size() == 1 && std::isalpha(static_cast<unsigned char>(part[0]));
  };
  return std::ranges::all_of(parts, is_letter) || std::ranges::find(abbreviations, lower) != abbreviations.end();
}

/// In tokenised text a point that is a word of its own always ends a sentence.
bool ends_sentence(std::string_view word) {
  word = without_closing(word);
  if (word.ends_with('!') || word.ends_with('?')) return true;
  if (!word.ends_with('.')) return false;
  word.remove_suffix(1);
  return word.empty() || !is_abbreviation(word);
}

}  // namespace

std::vector<std::string> sentences(std::string_view text) {
  std::vector<std::string> result;
  std::vector<std::string_view> sentence;
  const std::vector<std::string_view> words = split_words(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    sentence.push_back(words[i]);
    if (!ends_sentence(words[i])) continue;
    while (i + 1 < words.size() && closes(words[i + 1])) sentence.push_back(words[++i]);
    result.push_back(join_words(sentence));
    sentence.clear();
  }
  if (!sentence.empty()) result.push_back(join_words(sentence));
  return result;
}

std::string lead(std::string_view text, std::int64_t count) {
  std::string summary;
  for (const std::string& sentence : sentences(text)) {
    if (count-- <= 0) break;
    append_word(summary, sentence);
  }
  return summary;
}

}  // namespace fovea
