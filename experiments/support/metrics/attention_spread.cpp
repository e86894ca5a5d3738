#include "experiments/support/metrics/attention_spread.h"

#include <algorithm>

#include "experiments/support/metrics/statistics.h"
#include "tensor/error.h"

namespace fovea {

namespace {

/// Sums the weights of a row, among the first `keys`, that are at most `distance` away from `center`.
double sum_around(const double* row, std::int64_t center, std::int64_t keys, std::int64_t distance) {
  double sum = 0;
  for (std::int64_t j = std::max<std::int64_t>(0, center - distance); j <= std::min(keys - 1, center + distance); ++j)
    sum += row[j];
  return sum;
}

void require_lengths(std::span<const std::int64_t> lengths, std::int64_t sentences, std::int64_t most) {
  require(std::int64_t(lengths.size()) == sentences, "attention_within: {} lengths, {} sentences", lengths.size(),
          sentences);
  for (std::size_t b = 0; b < lengths.size(); ++b)
    require(lengths[b] >= 1 && lengths[b] <= most, "attention_within: sentence {} has length {}, expected 1 to {}", b,
            lengths[b], most);
}

/// Returns, for each sentence, the percentage of the weights near a center, averaged over heads and queries.
/// center(row of weights, query, keys) returns the center of a row.
template <class Center>
std::vector<double> share_around(const Tensor& weights, std::span<const std::int64_t> queries,
                                 std::span<const std::int64_t> keys, std::int64_t distance, const Center& center) {
  require(distance >= 0, "attention_within: distance {}, expected at least 0", distance);
  require_lengths(queries, weights.size(0), weights.size(2));
  require_lengths(keys, weights.size(0), weights.size(3));
  const std::int64_t H = weights.size(1), I = weights.size(2), J = weights.size(3);
  const std::vector<double> values = weights.to_vector<double>();
  std::vector<double> result;
  for (std::size_t b = 0; b < queries.size(); ++b) {
    double sum = 0;
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t i = 0; i < queries[b]; ++i) {
        const double* row = values.data() + ((std::int64_t(b) * H + h) * I + i) * J;
        sum += sum_around(row, center(row, i, keys[b]), keys[b], distance);
      }
    result.push_back(100 * sum / double(H * queries[b]));
  }
  return result;
}

}  // namespace

double vision_span(std::span<const StepSpans> steps) {
  require(!steps.empty(), "vision span: a sentence without a step of decoding");
  std::vector<double> means;
  for (const StepSpans& step : steps) {
    require(!step.empty(), "vision span: a step without a hypothesis");
    means.push_back(mean(step));
  }
  return mean(means);
}

VisionSpan vision_span(std::span<const std::vector<StepSpans>> sentences) {
  std::vector<double> averages, all;
  for (const std::vector<StepSpans>& steps : sentences) {
    averages.push_back(vision_span(steps));
    for (const StepSpans& step : steps) all.insert(all.end(), step.begin(), step.end());
  }
  return {.average = mean(averages), .pooled = mean(all)};
}

std::vector<double> attention_within(const Tensor& weights, std::span<const std::int64_t> lengths,
                                     std::int64_t distance) {
  require(weights.rank() == 4 && weights.size(2) == weights.size(3),
          "attention_within: the weights are {}, expected [B, H, n, n] of self-attention", weights.describe());
  return share_around(weights, lengths, lengths, distance,
                      [](const double*, std::int64_t i, std::int64_t) { return i; });
}

std::vector<double> attention_near_peak(const Tensor& weights, std::span<const std::int64_t> queries,
                                        std::span<const std::int64_t> keys, std::int64_t distance) {
  require(weights.rank() == 4, "attention_near_peak: the weights are {}, expected [B, H, I, J]", weights.describe());
  return share_around(weights, queries, keys, distance, [](const double* row, std::int64_t, std::int64_t count) {
    return std::max_element(row, row + count) - row;
  });
}

}  // namespace fovea
