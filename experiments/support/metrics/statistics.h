/// Is the difference between two systems more than chance?
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace fovea {

/// Arithmetic mean; NaN of nothing.
double mean(std::span<const double> values);

/// Sample standard deviation (divided by n - 1); NaN of fewer than two values.
double sample_standard_deviation(std::span<const double> values);

/// The value below which `fraction` (0 to 1) of the values lie, interpolated linearly; NaN of nothing.
double percentile(std::vector<double> values, double fraction);

struct Interval {
  double low, high;
};

struct BootstrapOptions {
  int resamples = 1000;
  std::uint64_t seed = 12345;
  double confidence = 0.95;
};

/// What resampling the test examples says about challenger - baseline.
struct PairedBootstrap {
  double difference;  ///< on the whole test set
  Interval interval;  ///< percentiles of the resampled differences
  /// Koehn 2004: the fraction of resamples in which the challenger is not better; ties count against it. One-sided.
  double p_koehn;
  /// Two-sided, centred: how often a resampled difference lies at least as far from their mean as the difference from
  /// 0, (count + 1) / (resamples + 1). A system against itself has 1.
  double p_two_sided;
  /// What Moses and sacreBLEU print: as p_two_sided, but the absolute differences are centred, |d_b| - mean |d| > |d|.
  /// (Theirs gives a system against itself 1 / (resamples + 1); here it is 1.)
  double p_moses;
};

/// From per-example scores whose mean is the metric: 0 or 1 for accuracy. Element i of both is example i.
PairedBootstrap paired_bootstrap(std::span<const double> baseline, std::span<const double> challenger,
                                 const BootstrapOptions& options = {});

/// For metrics that are no mean of examples (BLEU): `difference` gets the indices of the examples in the sample, with
/// repetitions, and returns challenger - baseline on it.
PairedBootstrap paired_bootstrap(std::size_t examples,
                                 const std::function<double(std::span<const std::size_t>)>& difference,
                                 const BootstrapOptions& options = {});

/// Percentile confidence interval of the mean.
Interval bootstrap_interval(std::span<const double> scores, const BootstrapOptions& options = {});

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
  /// On the examples of these indices, with repetitions.
  double value(std::span<const std::size_t> sample) const;
};

/// The mean of the scores, as such a metric.
SummedMetric mean_metric(std::vector<double> scores);

/// `difference` is challenger - baseline also where lower is better; p_koehn then counts the resamples in which the
/// challenger's is not lower.
PairedBootstrap paired_bootstrap(const SummedMetric& baseline, const SummedMetric& challenger,
                                 const BootstrapOptions& options = {});

/// Percentile confidence interval of the metric.
Interval bootstrap_interval(const SummedMetric& metric, const BootstrapOptions& options = {});

/// The papers' marks: "⇑" for p < .01, "↑" for p < .05, "" otherwise.
std::string significance_mark(double p);

}  // namespace fovea
