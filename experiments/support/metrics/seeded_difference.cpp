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

double variance_of(const SeededScore& row) { return square(sample_standard_deviation(row.values)); }
double degrees_of(const SeededScore& row) { return double(row.values.size()) - 1; }

/// The variance of the rows, pooled.
SeedSpread spread_of(std::span<const SeededScore* const> rows) {
  SeedSpread spread;
  for (const SeededScore* row : rows) {
    spread.variance += degrees_of(*row) * variance_of(*row);
    spread.degrees += degrees_of(*row);
  }
  if (spread.degrees > 0) spread.variance /= spread.degrees;
  return spread;
}

/// The variance that the seeds of a row add to its mean, and the part of it that is uncertain.
struct SeedPart {
  double added, uncertain, degrees;
  bool is_own;
};

SeedPart seed_part(const SeededScore& row, const SeedSpread& spread) {
  const double seeds = double(row.values.size());
  if (seeds > 1 && variance_of(row) > spread.largest)
    return {variance_of(row) / seeds, variance_of(row) / seeds, degrees_of(row), true};
  return {std::max(0.0, spread.variance - spread.from_examples) / seeds, spread.variance / seeds, spread.degrees,
          false};
}

}  // namespace

SeedSpread seed_spread(std::span<const SeededScore> rows, const BootstrapOptions& options) {
  std::vector<const SeededScore*> alike;  // the largest variance last
  for (const SeededScore& row : rows)
    if (row.values.size() > 1) alike.push_back(&row);
  std::sort(alike.begin(), alike.end(),
            [](const SeededScore* a, const SeededScore* b) { return variance_of(*a) < variance_of(*b); });
  SeedSpread spread = spread_of(alike);
  while (alike.size() > 1) {
    // For rows of two seeds this is the F test at the level of 0.1 %.
    SeedSpread others = spread_of(std::span(alike).first(alike.size() - 1));
    const double limit = square(student_quantile(0.999, others.degrees)) * others.variance;
    if (others.variance == 0 || variance_of(*alike.back()) <= limit) break;
    others.largest = limit;
    spread = others;
    alike.pop_back();
  }
  std::vector<double> from_examples;
  for (const SeededScore* row : alike)
    for (std::size_t k = 1; k < row->metrics.size(); ++k)
      from_examples.push_back(example_variance(row->metrics[0], row->metrics[k], row->factor, options) / 2);
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
    const SeedPart a = seed_part(left, spread), b = seed_part(right, spread);
    variance += a.added + b.added;
    // The number of examples is large: only the seeds' part of the variance is uncertain.
    const double uncertain = a.is_own || b.is_own ? square(a.uncertain) / a.degrees + square(b.uncertain) / b.degrees
                                                  : square(a.uncertain + b.uncertain) / spread.degrees;
    difference.degrees = std::max(std::min(a.degrees, b.degrees), square(variance) / uncertain);
  }
  if (!std::isnan(difference.standard_error)) difference.standard_error = std::sqrt(variance);
  return difference;
}

}  // namespace fovea
