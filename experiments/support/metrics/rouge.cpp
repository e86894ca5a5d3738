#include "experiments/support/metrics/rouge.h"

#include <algorithm>

#include "experiments/support/metrics/ngrams.h"
#include "experiments/support/metrics/porter_stemmer.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

using Numbers = std::span<const int>;

RougeScore score(std::size_t matches, std::size_t hypothesis, std::size_t reference) {
  if (matches == 0) return {};
  const double p = double(matches) / double(hypothesis), r = double(matches) / double(reference);
  return {.precision = p, .recall = r, .f1 = 2 * p * r / (p + r)};
}

/// Lengths of the longest common subsequences of all pairs of prefixes: [reference + 1, hypothesis + 1].
class CommonSubsequences {
 public:
  CommonSubsequences(Numbers reference, Numbers hypothesis)
      : reference_(reference), hypothesis_(hypothesis), lengths_((reference.size() + 1) * (hypothesis.size() + 1)) {
    for (std::size_t i = 1; i <= reference.size(); ++i) {
      for (std::size_t j = 1; j <= hypothesis.size(); ++j) {
        at(i, j) = reference[i - 1] == hypothesis[j - 1] ? at(i - 1, j - 1) + 1 : std::max(at(i - 1, j), at(i, j - 1));
      }
    }
  }

  std::size_t longest() { return std::size_t(at(reference_.size(), hypothesis_.size())); }

  /// Marks the words of the reference that are part of a longest common subsequence. Walks back from the ends; where
  /// two subsequences are equally long, it skips the word of the reference rather than that of the hypothesis.
  void mark(std::vector<bool>& words) {
    std::size_t i = reference_.size(), j = hypothesis_.size();
    while (i > 0 && j > 0) {
      if (reference_[i - 1] == hypothesis_[j - 1]) {
        words[i - 1] = true;
        --i, --j;
      } else if (at(i, j - 1) > at(i - 1, j)) {
        --j;
      } else {
        --i;
      }
    }
  }

 private:
  int& at(std::size_t i, std::size_t j) { return lengths_[i * (hypothesis_.size() + 1) + j]; }

  Numbers reference_, hypothesis_;
  std::vector<int> lengths_;
};

std::vector<std::string> words_of_each(std::span<const std::string_view> sentences, const RougeOptions& options) {
  std::vector<std::string> result;
  for (std::string_view sentence : sentences) result.push_back(rouge_words(sentence, options));
  return result;
}

void keep_better(RougeScore& best, const RougeScore& other) {
  if (other.f1 > best.f1) best = other;
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

std::string rouge_words(std::string_view text, const RougeOptions& options) {
  std::string result, word;
  const auto end_word = [&] {
    if (word.empty()) return;
    if (!result.empty()) result += ' ';
    result += options.stem && word.size() > 3 ? porter_stem(word) : word;
    word.clear();
  };
  for (char c : text) {
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
    keep_better(best.one, one.one);
    keep_better(best.two, one.two);
    keep_better(best.sentence_l, one.sentence_l);
    keep_better(best.summary_l, one.summary_l);
  }
  return best;
}

}  // namespace fovea
