#include "experiments/support/metrics/rouge.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <unordered_map>
#include <utility>

#include "experiments/support/metrics/ngrams.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

using Stem = std::string_view;

/// Whether each letter is a consonant. y is one at the beginning and behind a vowel.
std::vector<bool> consonants(Stem word) {
  std::vector<bool> result;
  for (const char letter : word) {
    const bool is_vowel = Stem("aeiou").find(letter) != Stem::npos;
    result.push_back(!is_vowel && (letter != 'y' || result.empty() || !result.back()));
  }
  return result;
}

/// Returns the measure m of a word [C](VC)^m[V]: how often a consonant follows a vowel.
int measure(Stem stem) {
  const std::vector<bool> is_consonant = consonants(stem);
  int m = 0;
  for (std::size_t i = 1; i < stem.size(); ++i) m += is_consonant[i] && !is_consonant[i - 1];
  return m;
}

bool has_vowel(Stem stem) { return std::ranges::count(consonants(stem), false) > 0; }

bool ends_in_double_consonant(Stem word) {
  const std::size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && consonants(word).back();
}

/// Whether the word ends in consonant, vowel, consonant, and the last is not w, x or y: hop does, snow does not.
bool ends_in_short_syllable(Stem word) {
  const std::vector<bool> is_consonant = consonants(word);
  const std::size_t n = word.size();
  return n >= 3 && is_consonant[n - 3] && !is_consonant[n - 2] && is_consonant[n - 1] &&
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

/// Repairs a stem from which -ed or -ing was removed (Porter 1980, step 1b): "hopp" becomes "hop", "hop" becomes
/// "hope", and "fall" stays.
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
  if (word.ends_with("ion") && !word.ends_with("sion") && !word.ends_with("tion")) return;
  for (const char* ending : {"ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti",
                             "ous", "ive", "ize", "al", "er", "ic", "ou"})
    if (word.ends_with(ending)) return replace_ending(word, 1, {{ending, ""}});
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

namespace {

using Numbers = std::span<const int>;

RougeScore score(std::size_t matches, std::size_t hypothesis, std::size_t reference) {
  if (matches == 0) return {};
  const double p = double(matches) / double(hypothesis), r = double(matches) / double(reference);
  return {.precision = p, .recall = r, .f1 = 2 * p * r / (p + r)};
}

/// Lengths of the longest common subsequences of all pairs of prefixes. A row has the prefixes of the hypothesis, one
/// bit for each of its words, which is 0 where the length grows by 1 (Hyyro 2004, "Bit-parallel LCS-length computation
/// revisited").
class CommonSubsequences {
 public:
  CommonSubsequences(Numbers reference, Numbers hypothesis)
      : reference_(reference),
        hypothesis_(hypothesis),
        width_(hypothesis.size() / bits + 1),
        rows_((reference.size() + 1) * width_, ~std::uint64_t{0}) {
    std::vector<std::pair<int, std::size_t>> places;  // of words in the hypothesis
    for (std::size_t j = 0; j < hypothesis.size(); ++j) places.emplace_back(hypothesis[j], j);
    std::ranges::sort(places);
    std::vector<std::uint64_t> of_rare_word(width_);
    std::unordered_map<int, std::vector<std::uint64_t>> of_frequent_words;  // at most 64 words
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const auto word_of = &std::pair<int, std::size_t>::first;
      const std::span<const std::pair<int, std::size_t>> same(
          std::ranges::lower_bound(places, reference[i], {}, word_of),
          std::ranges::upper_bound(places, reference[i], {}, word_of));
      const bool is_rare = same.size() <= width_;
      std::vector<std::uint64_t>& equal = is_rare ? of_rare_word : of_frequent_words[reference[i]];
      if (is_rare || equal.empty()) {
        equal.resize(width_);
        for (const auto& [word, j] : same) equal[j / bits] |= std::uint64_t{1} << j % bits;
      }
      const std::uint64_t* above = &rows_[i * width_];
      std::uint64_t* row = &rows_[(i + 1) * width_];
      bool carry = false;
      for (std::size_t k = 0; k < width_; ++k) {
        const std::uint64_t both = above[k] & equal[k], sum = above[k] + both, all = sum + carry;
        carry = sum < both || all < sum;
        row[k] = all | (above[k] & ~equal[k]);
      }
      if (!is_rare) continue;
      for (const auto& [word, j] : same) equal[j / bits] = 0;
    }
  }

  std::size_t longest() const { return at(reference_.size(), hypothesis_.size()); }

  /// Marks the words of the reference that are part of a longest common subsequence. Walks back from the ends; where
  /// two subsequences are equally long, it skips the word of the reference rather than that of the hypothesis.
  void mark(std::vector<bool>& words) const {
    std::size_t i = reference_.size(), j = hypothesis_.size();
    for (std::size_t length = longest(); length > 0;) {
      if (reference_[i - 1] == hypothesis_[j - 1]) {
        words[i - 1] = true;
        --i, --j, --length;
      } else {
        at(i - 1, j) == length ? --i : --j;
      }
    }
  }

 private:
  static constexpr std::size_t bits = 64;

  /// The length for the first i words of the reference and the first j of the hypothesis.
  std::size_t at(std::size_t i, std::size_t j) const {
    const std::uint64_t* row = &rows_[i * width_];
    std::size_t length = 0;
    for (std::size_t k = 0; k < j / bits; ++k) length += std::size_t(std::popcount(~row[k]));
    return length + std::size_t(std::popcount(~row[j / bits] & ((std::uint64_t{1} << j % bits) - 1)));
  }

  Numbers reference_, hypothesis_;
  std::size_t width_;
  std::vector<std::uint64_t> rows_;
};

/// The words of a text that ROUGE compares, with one space between them.
std::string rouge_words(std::string_view text, const RougeOptions& options) {
  std::string result, word;
  const auto end_word = [&] {
    if (word.empty()) return;
    append_word(result, options.stem && word.size() > 3 ? porter_stem(word) : word);
    word.clear();
  };
  constexpr std::string_view dotted_i = "\xc4\xb0", kelvin = "\xe2\x84\xaa";  // Python's lower() gives i̇ and k
  for (std::size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (text.substr(at).starts_with(kelvin)) c = 'k', at += kelvin.size() - 1;
    if (text.substr(at).starts_with(dotted_i)) {
      word += 'i';
      c = ' ', at += dotted_i.size() - 1;
    }
    if (c >= 'A' && c <= 'Z') c = char(c + 32);
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      word += c;
    } else {
      end_word();
    }
  }
  end_word();
  return result;
}

std::vector<std::string> words_of_each(std::span<const std::string_view> sentences, const RougeOptions& options) {
  std::vector<std::string> result;
  for (std::string_view sentence : sentences) result.push_back(rouge_words(sentence, options));
  return result;
}

Rouge rouge_of_one(std::string_view hypothesis, std::string_view reference, const RougeOptions& options) {
  const std::string ours = rouge_words(hypothesis, options), theirs = rouge_words(reference, options);
  NgramNumbers ngrams(std::vector<Words>{split_words(ours), split_words(theirs)});
  const auto shared = [&] {
    return score(std::size_t(overlap(ngrams.counts(0), ngrams.counts(1))), ngrams.of(0).size(), ngrams.of(1).size());
  };
  Rouge result;
  result.one = shared();
  result.sentence_l =
      score(CommonSubsequences(ngrams.of(1), ngrams.of(0)).longest(), ngrams.of(0).size(), ngrams.of(1).size());
  ngrams.lengthen();
  result.two = shared();
  result.summary_l = rouge_l_summary(split_columns(hypothesis, '.'), split_columns(reference, '.'), options);
  return result;
}

}  // namespace

RougeScore rouge_l_summary(std::span<const std::string_view> hypothesis, std::span<const std::string_view> reference,
                           const RougeOptions& options) {
  const std::vector<std::string> ours = words_of_each(hypothesis, options), theirs = words_of_each(reference, options);
  std::vector<Words> sentences;
  for (const std::string& sentence : ours) sentences.push_back(split_words(sentence));
  for (const std::string& sentence : theirs) sentences.push_back(split_words(sentence));
  const NgramNumbers numbers(sentences);

  std::vector<int> left_in_ours(std::size_t(numbers.distinct()), 0), left_in_theirs = left_in_ours;
  std::size_t words_of_ours = 0, words_of_theirs = 0, matches = 0;
  for (std::size_t s = 0; s < sentences.size(); ++s) {
    for (int word : numbers.of(s)) ++(s < ours.size() ? left_in_ours : left_in_theirs)[std::size_t(word)];
    (s < ours.size() ? words_of_ours : words_of_theirs) += sentences[s].size();
  }
  for (std::size_t t = ours.size(); t < sentences.size(); ++t) {
    std::vector<bool> in_union(sentences[t].size());
    for (std::size_t s = 0; s < ours.size(); ++s) CommonSubsequences(numbers.of(t), numbers.of(s)).mark(in_union);
    for (std::size_t i = 0; i < in_union.size(); ++i) {
      const auto word = std::size_t(numbers.of(t)[i]);
      if (!in_union[i] || left_in_ours[word] == 0 || left_in_theirs[word] == 0) continue;
      ++matches, --left_in_ours[word], --left_in_theirs[word];
    }
  }
  return score(matches, words_of_ours, words_of_theirs);
}

Rouge rouge(std::string_view hypothesis, std::span<const std::string> references, const RougeOptions& options) {
  require(!references.empty(), "ROUGE: there is no reference");
  Rouge best;
  for (const std::string& reference : references) {
    const Rouge one = rouge_of_one(hypothesis, reference, options);
    for (RougeScore Rouge::*score : {&Rouge::one, &Rouge::two, &Rouge::sentence_l, &Rouge::summary_l})
      if ((one.*score).f1 > (best.*score).f1) best.*score = one.*score;
  }
  return best;
}

}  // namespace fovea
