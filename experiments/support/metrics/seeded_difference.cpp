#include "experiments/support/metrics/seeded_difference.h"

#include <algorithm>
#include <cmath>

#include <boost/math/distributions/fisher_f.hpp>

namespace fovea {

namespace {

double square(double x) { return x * x; }

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

/// A row's score and, for each seed, the values on bootstrap resamples of the examples minus their mean:
/// deviations[seed][resample], in the unit of the column.
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

/// The variance that seeds add to a difference.
struct SeedPart {
  double added;      ///< without what comes from the examples
  double uncertain;  ///< the square of the whole, divided by its degrees of freedom
  double degrees;
};

/// Whether the seeds of a row differ more than those of the other rows, beyond chance: an F test at the level of 1 %.
/// `squares` is the sum over all rows of the squares within them, with its degrees of freedom.
bool is_uneven(const SeededScore& row, double squares, double degrees) {
  const double own = degrees_of(row), others = degrees - own;
  if (own < 1 || others < 1) return false;
  const double variance = variance_within_rows({row.values}), of_others = (squares - variance * own) / others;
  // without a difference in any other row, nothing is known about chance
  return of_others > 0 && variance > of_others * boost::math::quantile(boost::math::fisher_f(own, others), 0.99);
}

/// `has_examples`: the difference has a part that comes from the examples, and it is added elsewhere.
SeedPart seed_part(const SeededScore& left, const SeededScore& right, const SeedSpread& spread, bool has_examples) {
  SeedPart apart{};
  double variance = 0;
  bool are_apart = false;
  for (const SeededScore* row : {&left, &right}) {
    SeedSpread::Part part = spread.within_rows;
    const double seeds = double(row->values.size());
    if (std::ranges::count(spread.uneven, row->values) > 0) {
      part = {variance_within_rows({row->values}), part.from_examples, degrees_of(*row)};
      are_apart = true;
    }
    apart.added += std::max(0.0, part.variance - (has_examples ? part.from_examples : 0)) / seeds;
    apart.uncertain += square(part.variance / seeds) / part.degrees;
    variance += part.variance / seeds;
  }
  apart.degrees = square(variance) / apart.uncertain;
  if (are_apart) return apart;
  const bool is_paired = left.seeds == right.seeds && !left.seeds.empty() && spread.paired.degrees >= 2;
  const SeedSpread::Part& part = is_paired ? spread.paired : spread.within_rows;
  const double excess = std::max(0.0, part.variance - (has_examples ? part.from_examples : 0));
  const double per_row = 1 / double(left.values.size()) + 1 / double(right.values.size());
  return {excess * per_row, square(part.variance * per_row) / part.degrees, part.degrees};
}

}  // namespace

SeedSpread seed_spread(std::span<const SeededScore> rows, const BootstrapOptions& options) {
  SeedSpread spread;
  Values all;
  double all_degrees = 0, degrees = 0;
  for (const SeededScore& row : rows)
    if (row.values.size() > 1) all.push_back(row.values), all_degrees += degrees_of(row);
  const double squares = all.empty() ? 0 : variance_within_rows(all) * all_degrees;
  ResampledRows resampled_rows;
  for (const SeededScore& row : rows) {
    if (row.values.size() < 2) continue;
    if (is_uneven(row, squares, all_degrees)) {
      spread.uneven.push_back(row.values);
      continue;
    }
    resampled_rows.push_back(resampled(row, options));
    degrees += degrees_of(row);
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
