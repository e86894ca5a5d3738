/// n-grams of a few short texts, counted fast: what BLEU, ROUGE and RIBES have in common.
#pragma once
#include <span>
#include <string_view>
#include <vector>

namespace fovea {

using Words = std::vector<std::string_view>;

/// The n-grams of a few texts as numbers, for n = 1 at first: equal n-grams, of any of the texts, have equal numbers.
class NgramNumbers {
 public:
  explicit NgramNumbers(std::span<const Words> texts);

  /// From n-grams to (n + 1)-grams.
  void lengthen();

  /// The n-grams of a text in their order: as many as words, less n - 1.
  std::span<const int> of(std::size_t text) const { return ngrams_[text]; }

  /// How many different ones the texts have: all numbers are below.
  int distinct() const { return distinct_; }

  /// How often each number occurs in a text.
  std::vector<int> counts(std::size_t text) const;

 private:
  std::vector<std::vector<int>> words_, ngrams_;
  int distinct_ = 0;
  std::size_t order_ = 1;
};

/// Sum over all numbers of min(a, b): how many n-grams two texts share, each as often as both have it.
int overlap(std::span<const int> counts_a, std::span<const int> counts_b);

}  // namespace fovea
