#include "experiments/support/metrics/seeded_difference.h"

#include <algorithm>
#include <cmath>

namespace fovea {

namespace {

double square(double x) { return x * x; }

/// The variance of the difference in a bootstrap over the examples.
double example_variance(const SummedMetric& a, const SummedMetric& b, double factor, const BootstrapOptions& options) {
  if (a.examples() != b.examples()) return std::nan("");
  return square(factor * paired_bootstrap(a, b, options).standard_error);
}

}  // namespace

SeedSpread seed_spread(std::span<const SeededScore> rows, const BootstrapOptions& options) {
  SeedSpread spread;
  std::vector<double> from_examples;
  for (const SeededScore& row : rows) {
    if (row.values.size() < 2) continue;
    const double degrees = double(row.values.size() - 1);
    spread.variance += degrees * square(sample_standard_deviation(row.values));
    spread.degrees += degrees;
    for (std::size_t k = 1; k < row.metrics.size(); ++k)
      from_examples.push_back(example_variance(row.metrics[0], row.metrics[k], row.factor, options) / 2);
  }
  if (spread.degrees > 0) spread.variance /= spread.degrees;
  if (!from_examples.empty()) spread.from_examples = mean(from_examples);
  return spread;
}

Interval SeededDifference::interval() const {
  if (std::isnan(standard_error)) return {standard_error, standard_error};
  const double reach = student_quantile(0.95, degrees) * standard_error;
  return {value - reach, value + reach};
}

double SeededDifference::visible() const {
  constexpr double both_sides = 0.6;  // 80 % lie below its quantile
  return (student_quantile(0.95, degrees) + student_quantile(both_sides, degrees)) * standard_error;
}

SeededDifference seeded_difference(const SeededScore& left, const SeededScore& right, const SeedSpread& spread,
                                   const BootstrapOptions& options) {
  SeededDifference difference{.value = mean(left.values) - mean(right.values), .covers_seeds = spread.degrees > 0};
  const bool has_examples = !left.metrics.empty() && !right.metrics.empty();
  if (!has_examples && !difference.covers_seeds) difference.standard_error = std::nan("");
  double variance = 0;
  if (has_examples) variance = example_variance(pooled(left.metrics), pooled(right.metrics), left.factor, options);
  if (difference.covers_seeds) {
    const double shares = 1 / double(left.values.size()) + 1 / double(right.values.size());
    variance += std::max(0.0, spread.variance - spread.from_examples) * shares;
    // The number of examples is large: only the seeds' part of the variance is uncertain.
    const double uncertain = spread.variance * shares;
    difference.degrees = std::max(spread.degrees, spread.degrees * square(variance / uncertain));
  }
  if (!std::isnan(difference.standard_error)) difference.standard_error = std::sqrt(variance);
  return difference;
}

}  // namespace fovea
