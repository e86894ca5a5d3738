#include "experiments/support/metrics/seeded_difference.h"

#include <algorithm>
#include <cmath>

namespace fovea {

namespace {

double square(double x) { return x * x; }

double variance_of(const SeededScore& row) { return square(sample_standard_deviation(row.values)); }
double degrees_of(const SeededScore& row) { return double(row.values.size()) - 1; }

/// Values by row and seed.
using Values = std::vector<std::vector<double>>;

void subtract_mean(std::vector<double>& values) {
  const double center = mean(values);
  for (double& value : values) value -= center;
}

double sum_of_squares(const Values& rows) {
  double sum = 0;
  for (const std::vector<double>& row : rows)
    for (double value : row) sum += square(value);
  return sum;
}

/// The variance between the seeds of a row, pooled.
double variance_within_rows(Values rows) {
  double degrees = 0;
  for (std::vector<double>& row : rows) subtract_mean(row), degrees += double(row.size()) - 1;
  return sum_of_squares(rows) / degrees;
}

/// The residual variance of a complete table, after the effects of rows and seeds.
double residual_variance(Values rows) {
  for (std::vector<double>& row : rows) subtract_mean(row);
  const std::size_t seeds = rows.front().size();
  for (std::size_t s = 0; s < seeds; ++s) {
    double effect = 0;
    for (const std::vector<double>& row : rows) effect += row[s] / double(rows.size());
    for (std::vector<double>& row : rows) row[s] -= effect;
  }
  return sum_of_squares(rows) / (double(rows.size() - 1) * double(seeds - 1));
}

/// A row with the deviations of its values from their means in resamples of the examples, by seed.
struct ResampledRow {
  const SeededScore* score;
  std::vector<std::vector<double>> deviations = {};  ///< empty for a measurement without examples
};
using ResampledRows = std::vector<ResampledRow>;

ResampledRow resampled(const SeededScore& score, const BootstrapOptions& options) {
  ResampledRow row{&score};
  for (const SummedMetric& metric : score.metrics) {
    row.deviations.push_back(bootstrap_values(metric, options));
    subtract_mean(row.deviations.back());
    for (double& deviation : row.deviations.back()) deviation *= score.factor;
  }
  return row;
}

/// A variance of the rows' values, and its mean over the resamples.
SeedSpread::Part part_of(const ResampledRows& rows, double degrees, double (*variance)(Values)) {
  if (degrees < 1) return {};
  Values values;
  for (const ResampledRow& row : rows) values.push_back(row.score->values);
  SeedSpread::Part part{.variance = variance(values), .from_examples = 0, .degrees = degrees};
  std::size_t resamples = 0;
  for (const ResampledRow& row : rows)
    if (!row.deviations.empty()) resamples = row.deviations.front().size();
  for (std::size_t b = 0; b < resamples; ++b) {
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::size_t s = 0; s < values[r].size(); ++s)
        values[r][s] = rows[r].deviations.empty() ? 0 : rows[r].deviations[s][b];
    part.from_examples += variance(values) / double(resamples - 1);
  }
  return part;
}

/// The rows that have all seeds of any row.
ResampledRows complete_rows(const ResampledRows& rows) {
  std::vector<std::uint64_t> all;
  for (const ResampledRow& row : rows)
    if (row.score->seeds.size() > all.size()) all = row.score->seeds;
  ResampledRows complete;
  for (const ResampledRow& row : rows)
    if (!all.empty() && row.score->seeds == all) complete.push_back(row);
  return complete;
}

/// The rows with several seeds, the largest variance last.
std::vector<const SeededScore*> sorted_by_variance(std::span<const SeededScore> rows) {
  std::vector<const SeededScore*> sorted;
  for (const SeededScore& row : rows)
    if (row.values.size() > 1) sorted.push_back(&row);
  std::ranges::sort(sorted,
                    [](const SeededScore* a, const SeededScore* b) { return variance_of(*a) < variance_of(*b); });
  return sorted;
}

/// Removes the rows at the end whose variance is far larger than that of those before them. Returns the limit.
double remove_outliers(std::vector<const SeededScore*>& sorted) {
  double limit = std::numeric_limits<double>::infinity();
  for (; sorted.size() > 1; sorted.pop_back()) {
    double degrees = 0, variance = 0;
    for (std::size_t r = 0; r + 1 < sorted.size(); ++r) {
      degrees += degrees_of(*sorted[r]);
      variance += degrees_of(*sorted[r]) * variance_of(*sorted[r]);
    }
    // For rows of two seeds this is the F test at the level of 0.1 %.
    const double largest = square(student_quantile(0.999, degrees)) * variance / degrees;
    if (variance == 0 || variance_of(*sorted.back()) <= largest) break;
    limit = largest;
  }
  return limit;
}

/// The variance that seeds add to a difference.
struct SeedPart {
  double added;      ///< without what comes from the examples
  double uncertain;  ///< the square of the whole, divided by its degrees of freedom
  double degrees;
};

/// `has_examples`: the difference has a part that comes from the examples, and it is added elsewhere.
SeedPart seed_part(const SeededScore& left, const SeededScore& right, const SeedSpread& spread, bool has_examples) {
  const bool is_paired = left.seeds == right.seeds && !left.seeds.empty() && spread.paired.degrees >= 2;
  const SeedSpread::Part& common = is_paired ? spread.paired : spread.within_rows;
  const auto is_outlier = [&](const SeededScore& row) {
    return row.values.size() > 1 && variance_of(row) > spread.largest;
  };
  const auto of_row = [&](const SeededScore& row, const SeedSpread::Part& part) {
    const double seeds = double(row.values.size());
    const double excess = part.variance - (has_examples ? part.from_examples : 0);
    return SeedPart{std::max(0.0, excess) / seeds, part.variance / seeds, part.degrees};
  };
  if (!is_outlier(left) && !is_outlier(right)) {
    const SeedPart a = of_row(left, common), b = of_row(right, common);
    return {a.added + b.added, square(a.uncertain + b.uncertain) / common.degrees, common.degrees};
  }
  const auto own = [&](const SeededScore& row) {
    return is_outlier(row) ? of_row(row, {variance_of(row), spread.within_rows.from_examples, degrees_of(row)})
                           : of_row(row, spread.within_rows);
  };
  const SeedPart a = own(left), b = own(right);
  return {a.added + b.added, square(a.uncertain) / a.degrees + square(b.uncertain) / b.degrees,
          std::min(a.degrees, b.degrees)};
}

}  // namespace

SeedSpread seed_spread(std::span<const SeededScore> rows, const BootstrapOptions& options) {
  std::vector<const SeededScore*> alike = sorted_by_variance(rows);
  SeedSpread spread{.within_rows = {}, .paired = {}, .largest = remove_outliers(alike)};
  ResampledRows resampled_rows;
  double degrees = 0;
  for (const SeededScore* row : alike) {
    resampled_rows.push_back(resampled(*row, options));
    degrees += degrees_of(*row);
  }
  spread.within_rows = part_of(resampled_rows, degrees, variance_within_rows);
  if (const ResampledRows complete = complete_rows(resampled_rows); !complete.empty())
    spread.paired =
        part_of(complete, double(complete.size() - 1) * degrees_of(*complete.front().score), residual_variance);
  return spread;
}

Interval SeededDifference::interval() const {
  if (std::isnan(standard_error)) return {standard_error, standard_error};
  const double reach = student_quantile(0.95, degrees) * standard_error;
  return {value - reach, value + reach};
}

double SeededDifference::visible() const {
  // |t| is below student_quantile(p, ...) with probability p, so that t is below that of p = 0.6 with 80 %.
  constexpr double both_sides = 0.6;
  return (student_quantile(0.95, degrees) + student_quantile(both_sides, degrees)) * standard_error;
}

SeededDifference seeded_difference(const SeededScore& left, const SeededScore& right, const SeedSpread& spread,
                                   const BootstrapOptions& options) {
  SeededDifference difference{.value = mean(left.values) - mean(right.values),
                              .covers_seeds = spread.within_rows.degrees > 0};
  const bool has_examples = !left.metrics.empty() && !right.metrics.empty();
  if (!has_examples && !difference.covers_seeds) difference.standard_error = std::nan("");
  double variance = 0;
  if (has_examples) {
    const SummedMetric a = pooled(left.metrics), b = pooled(right.metrics);
    variance = a.examples() == b.examples() ? square(left.factor * paired_bootstrap(a, b, options).standard_error)
                                            : std::nan("");
  }
  if (difference.covers_seeds) {
    const SeedPart seeds = seed_part(left, right, spread, has_examples);
    variance += seeds.added;
    // The number of examples is large: only the seeds' part of the variance is uncertain.
    difference.degrees = std::max(seeds.degrees, square(variance) / seeds.uncertain);
  }
  if (!std::isnan(difference.standard_error)) difference.standard_error = std::sqrt(variance);
  return difference;
}

}  // namespace fovea
