/// Perplexity: the exponential of the mean negative log-likelihood of a token or word.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/text/words.h"

namespace fovea {

/// The negative log-likelihood that a model gives a text, in nats, without label smoothing and with </s>; and the units
/// that it can be divided by.
struct Likelihood {
  double negative_log = 0;      ///< sum over the predicted tokens
  std::int64_t tokens = 0;      ///< predicted tokens, with </s>
  std::int64_t words = 0;       ///< words of the text, and one for each </s>
  std::int64_t characters = 0;  ///< characters of the text, one space between words, and one for each </s>
  Likelihood& operator+=(const Likelihood& other) {
    negative_log += other.negative_log;
    tokens += other.tokens;
    words += other.words;
    characters += other.characters;
    return *this;
  }
};

inline Likelihood total(std::span<const Likelihood> texts) {
  Likelihood sum;
  for (const Likelihood& text : texts) sum += text;
  return sum;
}

inline double token_perplexity(const Likelihood& text) { return std::exp(text.negative_log / double(text.tokens)); }

/// Counts the words and characters (code points) of a line of text. The other numbers are 0.
inline Likelihood units_of_line(std::string_view line) {
  Likelihood units;
  for (std::string_view word : split_words(line)) {
    ++units.words;
    units.characters += character_count(word);
  }
  units.characters += std::max<std::int64_t>(units.words, 1);  // spaces, and the line's end
  ++units.words;
  return units;
}

/// A function of the mean negative log-likelihood as a metric that can be resampled; exp is the perplexity.
inline SummedMetric likelihood_metric(std::span<const Likelihood> sentences, std::int64_t Likelihood::*count,
                                      double (*of_mean)(double) = std::exp) {
  SummedMetric metric{
      .width = 2, .of_sums = [=](auto sums) { return of_mean(sums[0] / sums[1]); }, .higher_is_better = false};
  for (const Likelihood& sentence : sentences) {
    metric.statistics.insert(metric.statistics.end(), {sentence.negative_log, double(sentence.*count)});
  }
  return metric;
}

}  // namespace fovea
