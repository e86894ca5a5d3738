/// Counts the n-grams of a few short texts, for BLEU, chrF, ROUGE and RIBES.
#pragma once
#include <span>
#include <string_view>
#include <vector>

namespace fovea {

using Words = std::vector<std::string_view>;

/// Numbers the n-grams of a few texts: equal n-grams have equal numbers, in all texts. n is 1 at first.
class NgramNumbers {
 public:
  explicit NgramNumbers(std::span<const Words> texts);

  /// Replaces the n-grams by (n + 1)-grams.
  void lengthen();

  /// The n-grams of a text in their order: as many as words, less n - 1.
  std::span<const int> of(std::size_t text) const { return ngrams_[text]; }

  /// Returns how many different n-grams the texts have. Their numbers are 0 to distinct() - 1.
  int distinct() const { return distinct_; }

  /// Returns how often each number occurs in a text.
  std::vector<int> counts(std::size_t text) const;

 private:
  std::vector<std::vector<int>> words_, ngrams_;
  int distinct_ = 0;
  std::size_t order_ = 1;
};

/// Returns how many n-grams two texts share: the sum over all numbers of min(a, b).
int overlap(std::span<const int> counts_a, std::span<const int> counts_b);

}  // namespace fovea
