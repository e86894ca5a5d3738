#include "experiments/support/metrics/attention_spread.h"

#include <algorithm>
#include <cstdlib>

#include "experiments/support/metrics/statistics.h"
#include "tensor/error.h"

namespace fovea {

namespace {

double mean_of(const StepSpans& spans) { return mean(std::vector<double>(spans.begin(), spans.end())); }

/// One head of one sentence: `weights` are its rows of `row` numbers.
double sum_within(const double* weights, std::int64_t row, std::int64_t length, std::int64_t distance) {
  double sum = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t first = std::max<std::int64_t>(0, i - distance), last = std::min(length - 1, i + distance);
    for (std::int64_t j = first; j <= last; ++j) sum += weights[i * row + j];
  }
  return sum;
}

}  // namespace

double vision_span(std::span<const StepSpans> steps) {
  require(!steps.empty(), "vision span: a sentence without a step of decoding");
  std::vector<double> means;
  for (const StepSpans& step : steps) {
    require(!step.empty(), "vision span: a step without a hypothesis");
    means.push_back(mean_of(step));
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
  const std::int64_t batch = weights.size(0), heads = weights.size(1), n = weights.size(2);
  require(std::int64_t(lengths.size()) == batch, "attention_within: {} lengths, {} sentences", lengths.size(), batch);
  require(distance >= 0, "attention_within: distance {}, expected at least 0", distance);
  const std::vector<double> values = weights.to_vector<double>();
  std::vector<double> result;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = lengths[std::size_t(b)];
    require(length >= 1 && length <= n, "attention_within: sentence {} has length {}, expected 1 to {}", b, length, n);
    double sum = 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      sum += sum_within(values.data() + (b * heads + h) * n * n, n, length, distance);
    }
    result.push_back(100 * sum / double(heads * length));
  }
  return result;
}

}  // namespace fovea
