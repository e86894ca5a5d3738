/// The numbers of a sheet's table: what our runs have in a column, and what the difference of two rows is judged by.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/metrics/seeded_difference.h"
#include "experiments/support/report/sheet.h"

namespace fovea {

/// The runs of a row in a task; none if it was not trained.
const SeedRuns& runs_of(const SheetRuns& all, const std::string& row, const std::string& task);

/// The metric of a column in a row, whose part takes the place of $part.
std::string metric_of(const Sheet::Column& column, const Sheet::Row& row);

/// The metrics that a column's metric is made of: several if it is a mean ("mean: ROUGE-1 F1, ROUGE-2 F1").
std::vector<std::string> metrics_of(const std::string& metric);

/// The paper's number in a column; NaN if it gives none.
double printed(const Sheet& sheet, const Sheet::Column& column, const Sheet::Row& row);

/// Ours in the unit of the column, a value for each run of the row that has one.
std::vector<double> our_values(const SheetRuns& runs, const Sheet::Column& column, const Sheet::Row& row);

/// our_values(), with the sums over test examples that they are made of if they are scores of the same examples.
SeededScore seeded_score(const SheetRuns& runs, const Sheet::Column& column, const Sheet::Row& row);

/// How much seeds differ in a column: of all runs that are trained alike or, if these do not have the column, of the
/// sheet's rows.
SeedSpread spread_of(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column);

/// The 95 % interval, "-1.23 to 0.50"; empty if it is unknown.
std::string interval_text(const SeededDifference& difference, int decimals);

}  // namespace fovea
