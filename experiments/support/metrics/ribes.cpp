#include "experiments/support/metrics/ribes.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

using Numbers = std::span<const int>;

bool occurs(Numbers ngram, Numbers text) {
  return std::search(text.begin(), text.end(), ngram.begin(), ngram.end()) != text.end();
}

/// Returns the position of the n-gram in the text if it occurs exactly once.
std::optional<std::size_t> only_place(Numbers ngram, Numbers text) {
  const auto first = std::search(text.begin(), text.end(), ngram.begin(), ngram.end());
  if (first == text.end()) return {};
  if (std::search(first + 1, text.end(), ngram.begin(), ngram.end()) != text.end()) return {};
  return std::size_t(first - text.begin());
}

std::optional<std::size_t> place_of_unique(Numbers ngram, Numbers hypothesis, Numbers reference) {
  return only_place(ngram, hypothesis) ? only_place(ngram, reference) : std::nullopt;
}

/// Returns the position in the reference with which word i of the hypothesis is aligned.
std::optional<std::size_t> aligned_place(std::size_t i, Numbers hypothesis, Numbers reference) {
  if (!occurs(hypothesis.subspan(i, 1), reference)) return {};
  if (auto place = place_of_unique(hypothesis.subspan(i, 1), hypothesis, reference)) return place;
  bool left = true, right = true;  // an n-gram that the reference does not have is in none that is longer
  for (std::size_t width = 1; left || right; ++width) {
    left = left && width <= i && occurs(hypothesis.subspan(i - width, width + 1), reference);
    right = right && i + width < hypothesis.size() && occurs(hypothesis.subspan(i, width + 1), reference);
    if (left) {
      auto place = place_of_unique(hypothesis.subspan(i - width, width + 1), hypothesis, reference);
      if (place) return *place + width;
    }
    if (right) {
      if (auto place = place_of_unique(hypothesis.subspan(i, width + 1), hypothesis, reference)) return place;
    }
  }
  return {};
}

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
  const NgramNumbers numbers(std::vector<Words>{hypothesis, reference});
  std::vector<int> places;
  for (std::size_t i = 0; i < hypothesis.size(); ++i) {
    if (auto place = aligned_place(i, numbers.of(0), numbers.of(1))) places.push_back(int(*place));
  }
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
