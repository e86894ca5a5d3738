#include "experiments/support/metrics/ngrams.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace fovea {

NgramNumbers::NgramNumbers(std::span<const Words> texts) {
  std::unordered_map<std::string_view, int> numbers;
  for (const Words& text : texts) {
    std::vector<int>& words = words_.emplace_back();
    for (std::string_view word : text) words.push_back(numbers.try_emplace(word, int(numbers.size())).first->second);
  }
  ngrams_ = words_;
  distinct_ = int(numbers.size());
}

void NgramNumbers::lengthen() {
  std::unordered_map<std::uint64_t, int> numbers;
  for (std::size_t t = 0; t < ngrams_.size(); ++t) {
    std::vector<int>& ngrams = ngrams_[t];
    if (!ngrams.empty()) ngrams.pop_back();
    for (std::size_t i = 0; i < ngrams.size(); ++i) {
      std::uint64_t longer = std::uint64_t(ngrams[i]) << 32 | std::uint64_t(words_[t][i + order_]);
      ngrams[i] = numbers.try_emplace(longer, int(numbers.size())).first->second;
    }
  }
  distinct_ = int(numbers.size());
  ++order_;
}

std::vector<int> NgramNumbers::counts(std::size_t text) const {
  std::vector<int> counts(std::size_t(distinct_), 0);
  for (int ngram : ngrams_[text]) ++counts[std::size_t(ngram)];
  return counts;
}

int overlap(std::span<const int> counts_a, std::span<const int> counts_b) {
  int shared = 0;
  for (std::size_t k = 0; k < counts_a.size(); ++k) shared += std::min(counts_a[k], counts_b[k]);
  return shared;
}

}  // namespace fovea
