#include "experiments/support/metrics/porter_stemmer.h"

#include <initializer_list>
#include <utility>

namespace fovea {

namespace {

using Stem = std::string_view;

bool is_consonant(Stem word, std::size_t i) {
  if (Stem("aeiou").find(word[i]) != Stem::npos) return false;
  return word[i] != 'y' || i == 0 || !is_consonant(word, i - 1);
}

/// Returns the measure m of a word [C](VC)^m[V]: how often a consonant follows a vowel.
int measure(Stem stem) {
  int m = 0;
  for (std::size_t i = 1; i < stem.size(); ++i) m += is_consonant(stem, i) && !is_consonant(stem, i - 1);
  return m;
}

bool has_vowel(Stem stem) {
  for (std::size_t i = 0; i < stem.size(); ++i) {
    if (!is_consonant(stem, i)) return true;
  }
  return false;
}

bool ends_in_double_consonant(Stem word) {
  const std::size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && is_consonant(word, n - 1);
}

/// Whether the word ends in consonant, vowel, consonant, and the last is not w, x or y: hop does, snow does not.
bool ends_in_short_syllable(Stem word) {
  const std::size_t n = word.size();
  return n >= 3 && is_consonant(word, n - 3) && !is_consonant(word, n - 2) && is_consonant(word, n - 1) &&
         Stem("wxy").find(word[n - 1]) == Stem::npos;
}

Stem without(Stem word, Stem ending) { return word.substr(0, word.size() - ending.size()); }

/// Finds the first ending that the word has, and replaces it if the measure of the rest exceeds a limit.
void replace_ending(std::string& word, int larger_than,
                    std::initializer_list<std::pair<const char*, const char*>> endings) {
  for (const auto& [ending, replacement] : endings) {
    if (!word.ends_with(ending)) continue;
    const Stem stem = without(word, ending);
    if (measure(stem) > larger_than) word = std::string(stem) + replacement;
    return;
  }
}

void remove_plural(std::string& word) {
  if (word.ends_with("sses") || word.ends_with("ies")) {
    word.resize(word.size() - 2);
  } else if (word.ends_with('s') && !word.ends_with("ss")) {
    word.pop_back();
  }
}

/// hoping: hope; hopping: hop; falling: fall.
void mend(std::string& word) {
  if (word.ends_with("at") || word.ends_with("bl") || word.ends_with("iz")) {
    word += 'e';
  } else if (ends_in_double_consonant(word) && Stem("lsz").find(word.back()) == Stem::npos) {
    word.pop_back();
  } else if (measure(word) == 1 && ends_in_short_syllable(word)) {
    word += 'e';
  }
}

void remove_ed_and_ing(std::string& word) {
  if (word.ends_with("eed")) {
    if (measure(without(word, "eed")) > 0) word.pop_back();
    return;
  }
  for (const char* ending : {"ed", "ing"}) {
    if (!word.ends_with(ending) || !has_vowel(without(word, ending))) continue;
    word.resize(without(word, ending).size());
    return mend(word);
  }
}

void remove_suffix(std::string& word) {
  for (const char* ending : {"ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti",
                             "ous", "ive", "ize", "al", "er", "ic", "ou"}) {
    if (!word.ends_with(ending)) continue;
    const Stem stem = without(word, ending);
    const bool is_ion = Stem(ending) == "ion";
    const bool fits = !is_ion || stem.ends_with('s') || stem.ends_with('t');
    if (fits && measure(stem) > 1) word.resize(stem.size());
    return;
  }
}

void tidy_up(std::string& word) {
  if (word.ends_with('e')) {
    const Stem stem = without(word, "e");
    if (measure(stem) > 1 || (measure(stem) == 1 && !ends_in_short_syllable(stem))) word.pop_back();
  }
  if (word.ends_with("ll") && measure(word) > 1) word.pop_back();
}

}  // namespace

std::string porter_stem(std::string_view text) {
  std::string word(text);
  if (word.size() <= 2) return word;
  remove_plural(word);
  remove_ed_and_ing(word);
  if (word.ends_with('y') && has_vowel(without(word, "y"))) word.back() = 'i';
  replace_ending(word, 0,
                 {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"},
                  {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"}, {"eli", "e"},     {"ousli", "ous"},
                  {"ization", "ize"}, {"ation", "ate"},   {"ator", "ate"},  {"alism", "al"},  {"iveness", "ive"},
                  {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},  {"iviti", "ive"}, {"biliti", "ble"},
                  {"logi", "log"}});
  replace_ending(
      word, 0,
      {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""}});
  remove_suffix(word);
  tidy_up(word);
  return word;
}

}  // namespace fovea
