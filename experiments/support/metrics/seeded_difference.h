/// The difference between two rows of a table whose systems were trained with several seeds each, with an interval that
/// covers other test examples and other seeds.
///
///   se^2 = B + max(0, s^2 - r) (1 / S_1 + 1 / S_2)        S: numbers of seeds
///
/// B is the variance of the difference in a paired bootstrap over the test examples with the seeds pooled. s^2 is the
/// variance that seeds cause in one training, pooled over all rows, because two seeds say little about it. It has a
/// part r that comes from the examples and is in B already: the mean over the resamples of the examples of the same
/// variance, of the values' deviations from their means.
///
/// Trainings with the same seed have much in common, such as the order of the examples. If both rows have the same
/// seeds, s^2 is what then remains: the residual variance of a table of rows and seeds, after the effects of both. It
/// is estimated from the rows with the same seeds as the row that has most, and has (R - 1) (S - 1) degrees of freedom.
/// For rows with different seeds, or with fewer than two such degrees, s^2 is the variance between the seeds of a row.
///
/// A row whose own seeds differ more than those of the other rows, beyond chance (an F test at the level of 1 %), is
/// left out of the pools. Its differences have its own variance and degrees of freedom, as in Welch's test, and are not
/// paired by seed.
///
/// The interval is Student's, with the degrees of freedom of Welch and Satterthwaite, but not fewer than the seeds'
/// part has.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "experiments/support/metrics/statistics.h"

namespace fovea {

/// A row's values in one column, one for each seed.
struct SeededScore {
  std::vector<double> values;              ///< in the unit of the column
  std::vector<SummedMetric> metrics = {};  ///< what the values are made of; empty for a measurement without examples
  double factor = 1;                       ///< a value is its metric's times this
  std::vector<std::uint64_t> seeds = {};   ///< one for each value; empty: unknown, and shared with no other row
};

/// How much the seeds of a row differ, pooled over the rows of a table.
struct SeedSpread {
  struct Part {
    double variance = 0;       ///< s^2
    double from_examples = 0;  ///< r
    double degrees = 0;        ///< of freedom; 0: too few rows and seeds
  };
  Part within_rows;                         ///< between the seeds of a row
  Part paired;                              ///< for differences between rows with the same seeds
  std::vector<std::vector<double>> uneven;  ///< the values of the rows that are left out
};
SeedSpread seed_spread(std::span<const SeededScore> rows, const BootstrapOptions& options = {});

struct SeededDifference {
  double value = 0;           ///< of the means over seeds
  double standard_error = 0;  ///< NaN: unknown, for a measurement without a second seed in any row
  double degrees = std::numeric_limits<double>::infinity();
  bool covers_seeds = false;  ///< false: one seed each; the interval is about the test examples alone

  /// With 95 % confidence.
  Interval interval() const;
  /// The size that a true difference must have to be found with a probability of 80 % by a test at the level of 5 %:
  /// 2.8 standard errors, more with few degrees of freedom.
  double visible() const;
};

/// left - right. Both must have values; metrics must be of the same examples, or the standard error is NaN.
SeededDifference seeded_difference(const SeededScore& left, const SeededScore& right, const SeedSpread& spread,
                                   const BootstrapOptions& options = {});

}  // namespace fovea
