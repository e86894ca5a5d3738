#include "experiments/support/metrics/ribes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

using Numbers = std::span<const int>;

/// What the n-grams that begin at a word of the hypothesis have in common with the rest of the texts.
struct Beginning {
  std::size_t again = 0;                      ///< the longest n-gram that the hypothesis has once more
  std::array<std::size_t, 2> in_reference{};  ///< the longest n-gram that the reference has once, and twice
  std::size_t place = 0;                      ///< where the first of these begins in the reference

  /// The least words of an n-gram that both texts have exactly once; nothing if there is none.
  std::optional<std::size_t> unique(std::size_t at_least) const {
    const std::size_t words = std::max({at_least, again + 1, in_reference[1] + 1});
    return words <= in_reference[0] ? std::optional(words) : std::nullopt;
  }
};

/// The places of a text in the order of the suffixes that begin there, found by prefixes of twice the length each time.
struct SuffixOrder {
  std::vector<std::size_t> places, ranks;

  explicit SuffixOrder(const std::vector<int>& text) : places(text.size()), ranks(text.begin(), text.end()) {
    std::iota(places.begin(), places.end(), 0);
    std::vector<std::size_t> next(text.size());
    for (std::size_t width = 1; width == 1 || ranks[places.back()] + 1 < text.size(); width *= 2) {
      const auto key = [&](std::size_t at) {
        return std::pair(ranks[at], at + width < text.size() ? ranks[at + width] + 1 : 0);
      };
      std::ranges::sort(places, {}, key);
      next[places[0]] = 0;
      for (std::size_t k = 1; k < places.size(); ++k)
        next[places[k]] = next[places[k - 1]] + (key(places[k - 1]) != key(places[k]));
      ranks.swap(next);
    }
  }
};

/// Suffixes that begin alike lie beside each other in their order: for each suffix of the hypothesis, those of both
/// texts before it and behind it are looked at. One number that no word has stands between the texts.
std::vector<Beginning> beginnings(Numbers hypothesis, Numbers reference, int separator) {
  std::vector<int> text(hypothesis.begin(), hypothesis.end());
  text.push_back(separator);
  text.insert(text.end(), reference.begin(), reference.end());
  const SuffixOrder order(text);

  std::vector<std::size_t> shared(text.size());  // with the suffix before, in words
  for (std::size_t i = 0, common = 0; i < text.size(); ++i) {
    if (order.ranks[i] == 0) continue;
    const std::size_t before = order.places[order.ranks[i] - 1], last = std::max(i, before);
    while (last + common < text.size() && text[i + common] == text[before + common]) ++common;
    shared[order.ranks[i]] = common;
    common -= common > 0;
  }

  std::vector<Beginning> result(hypothesis.size());
  for (const bool backwards : {false, true}) {
    Beginning near;  // what the present suffix shares with those that were passed last
    for (std::size_t k = 0; k < text.size(); ++k) {
      const std::size_t at = backwards ? text.size() - 1 - k : k, place = order.places[at];
      const std::size_t common = !backwards ? shared[at] : k == 0 ? 0 : shared[at + 1];
      for (std::size_t* words : {&near.again, &near.in_reference[0], &near.in_reference[1]})
        *words = std::min(*words, common);
      if (place > hypothesis.size()) {
        near.in_reference = {text.size(), near.in_reference[0]}, near.place = place - hypothesis.size() - 1;
      } else if (place < hypothesis.size()) {
        Beginning& own = result[place];
        own.again = std::max(own.again, near.again);
        if (near.in_reference[0] > own.in_reference[0]) own.place = near.place;
        std::array all{own.in_reference[0], own.in_reference[1], near.in_reference[0], near.in_reference[1]};
        std::ranges::sort(all, std::greater());
        own.in_reference = {all[0], all[1]};
        near.again = text.size();
      }
    }
  }
  return result;
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
  const std::vector<int> first(numbers.of(0).rbegin(), numbers.of(0).rend()),
      second(numbers.of(1).rbegin(), numbers.of(1).rend());
  const auto onwards = beginnings(numbers.of(0), numbers.of(1), numbers.distinct());
  const auto back = beginnings(first, second, numbers.distinct());  // of n-grams that end at a word
  std::vector<int> places;
  for (std::size_t i = 0; i < hypothesis.size(); ++i) {
    const Beginning &right = onwards[i], &left = back[hypothesis.size() - 1 - i];
    const auto words_right = right.unique(1), words_left = left.unique(2);
    if (words_left && (!words_right || (*words_right > 1 && *words_left <= *words_right))) {
      places.push_back(int(reference.size() - 1 - left.place));
    } else if (words_right) {
      places.push_back(int(right.place));
    }
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
