/// Statistics of test results: means, deviations, and bootstrap tests of the difference between two systems.
#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace fovea {

/// Arithmetic mean; NaN if there are no values.
double mean(std::span<const double> values);

/// Sample standard deviation (divided by n - 1); NaN if there are fewer than two values.
double sample_standard_deviation(std::span<const double> values);

/// The value below which `fraction` (0 to 1) of the values lie, interpolated linearly; NaN if there are none, or if one
/// is NaN.
double percentile(std::vector<double> values, double fraction);

struct Interval {
  double low, high;
};

/// The t for which |T| <= t with this probability, where T has Student's distribution with at least one degree of
/// freedom: 12.71 for .95 and 1, 1.96 for .95 and many.
double student_quantile(double probability, double degrees);

struct BootstrapOptions {
  int resamples = 1000;
  std::uint64_t seed = 12345;
  double confidence = 0.95;
};

/// The difference challenger - baseline, and its distribution over resamples of the test examples.
struct PairedBootstrap {
  double difference;      ///< on the whole test set
  Interval interval;      ///< percentiles of the resampled differences
  double standard_error;  ///< standard deviation of the resampled differences
  /// Two-sided and centred: (count + 1) / (resamples + 1), where count is the number of resampled differences that are
  /// at least as far from their mean as `difference` is from 0. A system compared with itself has 1.
  double p = 1;
  /// Koehn 2004: the fraction of resamples in which the challenger is not better; ties count against it. One-sided.
  double p_koehn = 1;
};

/// A metric that is a function of sums over the test examples: BLEU of n-gram counts, perplexity of log-likelihoods, a
/// mean. The sums of a resample are all that a bootstrap computes anew.
struct SummedMetric {
  std::size_t width = 1;                ///< numbers that an example has
  std::vector<double> statistics = {};  ///< [examples, width]
  std::function<double(std::span<const double>)> of_sums;
  bool higher_is_better = true;

  std::size_t examples() const { return statistics.size() / width; }
  std::vector<double> sums() const;
  double value() const { return of_sums(sums()); }
  /// The metric on the examples with these indices, which may occur several times.
  double value(std::span<const std::size_t> sample) const;
};

/// Whole numbers that are counted in a sentence, or their sums over several.
template <std::size_t n>
using Counts = std::array<std::int64_t, n>;

template <std::size_t n>
Counts<n> sum(const std::vector<Counts<n>>& sentences) {
  Counts<n> sums{};
  for (const Counts<n>& sentence : sentences)
    for (std::size_t k = 0; k < n; ++k) sums[k] += sentence[k];
  return sums;
}

/// A score of the first `used` sums as a metric that can be resampled. The sums of pooled() metrics are means, which
/// are rounded to whole numbers.
template <std::size_t n>
SummedMetric counted_metric(std::span<const Counts<n>> sentences, std::size_t used,
                            std::function<double(const Counts<n>&)> score) {
  SummedMetric metric{.width = used, .of_sums = [score](std::span<const double> sums) {
                        Counts<n> counts{};
                        for (std::size_t k = 0; k < sums.size(); ++k) counts[k] = std::llround(sums[k]);
                        return score(counts);
                      }};
  for (const Counts<n>& sentence : sentences)
    metric.statistics.insert(metric.statistics.end(), sentence.begin(), sentence.begin() + std::ptrdiff_t(used));
  return metric;
}

/// The mean of the scores as a metric that can be resampled.
SummedMetric mean_metric(std::vector<double> scores);

/// One metric of several: the statistics of an example are the means over all. They must be of the same examples.
SummedMetric pooled(std::span<const SummedMetric> metrics);

/// The difference of the metrics in resamples of the examples, which both must have.
PairedBootstrap paired_bootstrap(const SummedMetric& baseline, const SummedMetric& challenger,
                                 const BootstrapOptions& options = {});

/// The metric on each resample of the examples. The resamples are the same for all metrics of as many examples.
std::vector<double> bootstrap_values(const SummedMetric& metric, const BootstrapOptions& options = {});

/// Percentile confidence interval of the metric.
Interval bootstrap_interval(const SummedMetric& metric, const BootstrapOptions& options = {});

}  // namespace fovea
