/// Perplexity: how many equally likely tokens the model chooses between.
#pragma once
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "experiments/support/metrics/statistics.h"

namespace fovea {

/// What a model says of a text: plain negative log-likelihoods in nats, without label smoothing, </s> included.
struct Likelihood {
  double negative_log = 0;      ///< sum over the predicted tokens
  std::int64_t tokens = 0;      ///< predicted, </s> included
  std::int64_t words = 0;       ///< of the text, and one for each </s>
  std::int64_t characters = 0;  ///< of the text, one space between words, and one for each </s>, which ends a line
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

/// Comparable between vocabularies, which token perplexity is not.
inline double word_perplexity(const Likelihood& text) { return std::exp(text.negative_log / double(text.words)); }

/// Bits per character, say: units of the text that the likelihood is of.
inline double bits_per(std::int64_t units, double negative_log) { return negative_log / double(units) / std::log(2.0); }

/// Likelihood::words and characters (code points) of a line of text, the other numbers 0.
Likelihood units_of_line(std::string_view line);

/// Perplexity of resamples: exp(sum of the negative logarithms / sum of the counts).
inline SummedMetric perplexity_metric(std::span<const Likelihood> sentences, std::int64_t Likelihood::*count) {
  SummedMetric metric{
      .width = 2, .of_sums = [](auto sums) { return std::exp(sums[0] / sums[1]); }, .higher_is_better = false};
  for (const Likelihood& sentence : sentences) {
    metric.statistics.insert(metric.statistics.end(), {sentence.negative_log, double(sentence.*count)});
  }
  return metric;
}

}  // namespace fovea
