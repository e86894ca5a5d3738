#include "experiments/support/metrics/ribes.h"

#include <algorithm>
#include <cmath>

#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

double ribes_of_words(const Words& hypothesis, const Words& reference) {
  constexpr double alpha = 0.25, beta = 0.10;
  const std::vector<int> places = ribes_alignment(hypothesis, reference);
  const double aligned = double(places.size()), words = double(hypothesis.size());
  double order = 0;
  if (places.size() == 1 && reference.size() == 1) {
    order = 1;
  } else if (places.size() < 2) {
    return 0;
  } else {
    for (std::size_t i = 0; i < places.size(); ++i) {
      order += double(std::count_if(places.begin() + std::ptrdiff_t(i), places.end(),
                                    [&](int later) { return places[i] < later; }));
    }
    order /= aligned * (aligned - 1) / 2;
  }
  const double brevity = std::min(1.0, std::exp(1 - double(reference.size()) / words));
  return order * std::pow(aligned / words, alpha) * std::pow(brevity, beta);
}

}  // namespace

std::vector<int> ribes_alignment(const Words& hypothesis, const Words& reference) {
  NgramNumbers ngrams(std::vector<Words>{hypothesis, reference});
  std::vector<int> places(hypothesis.size(), -1);  // in the reference, of each word; -1: it is not aligned yet
  for (int n = 1;; ++n) {
    const std::vector<int> ours = ngrams.counts(0), theirs = ngrams.counts(1);
    if (overlap(ours, theirs) == 0) break;  // longer n-grams share nothing either
    std::vector<int> begins(theirs.size());
    for (std::size_t i = 0; i < ngrams.of(1).size(); ++i) begins[std::size_t(ngrams.of(1)[i])] = int(i);
    // Aligns a word of each n-gram that both texts have exactly once: the word behind its first so many words.
    const auto align = [&](int before) {
      for (std::size_t i = 0; i < ngrams.of(0).size(); ++i) {
        const auto ngram = std::size_t(ngrams.of(0)[i]);
        int& place = places[i + std::size_t(before)];
        if (place < 0 && ours[ngram] == 1 && theirs[ngram] == 1) place = begins[ngram] + before;
      }
    };
    align(n - 1);  // n-grams that end with the word come before those that begin with it
    align(0);
    ngrams.lengthen();
  }
  std::erase(places, -1);
  return places;
}

double ribes(const std::string& hypothesis, std::span<const std::string> references) {
  require(!references.empty(), "RIBES: there is no reference");
  double best = 0;
  for (const std::string& reference : references) {
    best = std::max(best, ribes_of_words(split_words(hypothesis), split_words(reference)));
  }
  return best;
}

}  // namespace fovea
