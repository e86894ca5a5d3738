#include "experiments/support/metrics/statistics.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <boost/math/distributions/students_t.hpp>

#include "experiments/support/text/split_mix.h"
#include "tensor/error.h"

namespace fovea {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Returns the statistic of each resample.
std::vector<double> resampled(std::size_t examples,
                              const std::function<double(std::span<const std::size_t>)>& statistic,
                              const BootstrapOptions& options) {
  require(examples > 0, "bootstrap: there are no examples to resample");
  require(options.resamples > 0, "bootstrap: {} resamples, at least 1 is needed", options.resamples);
  SplitMix random(options.seed);
  std::vector<std::size_t> indices(examples);
  std::vector<double> values;
  for (int b = 0; b < options.resamples; ++b) {
    for (std::size_t& i : indices) i = random.below(examples);
    values.push_back(statistic(indices));
  }
  return values;
}

Interval central_interval(const std::vector<double>& values, double confidence) {
  double tail = (1 - confidence) / 2;
  return {percentile(values, tail), percentile(values, 1 - tail)};
}

}  // namespace

double mean(std::span<const double> values) {
  if (values.empty()) return nan;
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double sample_standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return nan;
  double center = mean(values), sum = 0;
  for (double value : values) sum += (value - center) * (value - center);
  return std::sqrt(sum / double(values.size() - 1));
}

double percentile(std::vector<double> values, double fraction) {
  const auto is_nan = [](double value) { return std::isnan(value); };
  if (values.empty() || std::ranges::any_of(values, is_nan)) return nan;
  std::ranges::sort(values);
  double position = std::clamp(fraction, 0.0, 1.0) * double(values.size() - 1);
  auto below = std::size_t(position);
  auto above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], position - double(below));
}

double student_quantile(double probability, double degrees) {
  require(probability > 0 && probability < 1, "student_quantile: probability {}, expected one between 0 and 1",
          probability);
  require(degrees >= 1, "student_quantile: {} degrees of freedom, at least 1 is needed", degrees);
  constexpr double as_good_as_normal = 1000;
  const boost::math::students_t distribution(std::min(degrees, as_good_as_normal));
  return boost::math::quantile(distribution, (1 + probability) / 2);
}

std::vector<double> SummedMetric::sums() const {
  std::vector<double> sums(width);
  for (std::size_t k = 0; k < statistics.size(); ++k) sums[k % width] += statistics[k];
  return sums;
}

double SummedMetric::value(std::span<const std::size_t> sample) const {
  std::vector<double> sums(width);
  for (std::size_t i : sample) {
    const double* row = &statistics[i * width];
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += row[k];
  }
  return of_sums(sums);
}

SummedMetric mean_metric(std::vector<double> scores) {
  double examples = double(scores.size());
  // every resample has as many examples as there are
  return {.width = 1, .statistics = std::move(scores), .of_sums = [examples](auto sums) { return sums[0] / examples; }};
}

SummedMetric pooled(std::span<const SummedMetric> metrics) {
  require(!metrics.empty(), "pooled: there are no metrics");
  SummedMetric mean = metrics.front();
  for (const SummedMetric& one : metrics.subspan(1)) {
    require(one.statistics.size() == mean.statistics.size(), "pooled: {} and {} statistics; they must be equally many",
            mean.statistics.size(), one.statistics.size());
    for (std::size_t i = 0; i < mean.statistics.size(); ++i) mean.statistics[i] += one.statistics[i];
  }
  for (double& statistic : mean.statistics) statistic /= double(metrics.size());
  return mean;
}

PairedBootstrap paired_bootstrap(const SummedMetric& baseline, const SummedMetric& challenger,
                                 const BootstrapOptions& options) {
  require(baseline.examples() == challenger.examples(),
          "paired bootstrap: {} examples of the baseline, {} of the challenger; they must be the same",
          baseline.examples(), challenger.examples());
  const std::vector<double> sampled = resampled(
      baseline.examples(), [&](auto sample) { return challenger.value(sample) - baseline.value(sample); }, options);
  PairedBootstrap result{.difference = challenger.value() - baseline.value(),
                         .interval = central_interval(sampled, options.confidence),
                         .standard_error = sample_standard_deviation(sampled)};
  const double center = mean(sampled);
  const auto is_as_far = [&](double d) {
    return !(std::abs(d - center) < std::abs(result.difference));
  };  // NaN proves nothing
  result.p = double(std::ranges::count_if(sampled, is_as_far) + 1) / (options.resamples + 1);
  const double sign = baseline.higher_is_better ? 1 : -1;
  result.p_koehn =
      double(std::ranges::count_if(sampled, [&](double d) { return !(sign * d > 0); })) / options.resamples;
  return result;
}

std::vector<double> bootstrap_values(const SummedMetric& metric, const BootstrapOptions& options) {
  return resampled(
      metric.examples(), [&](auto indices) { return metric.value(indices); }, options);
}

Interval bootstrap_interval(const SummedMetric& metric, const BootstrapOptions& options) {
  return central_interval(bootstrap_values(metric, options), options.confidence);
}

}  // namespace fovea
