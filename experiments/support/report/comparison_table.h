/// The table of a comparison: a row for each model, with the means over its seeds.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/report/table.h"
#include "experiments/support/training/record.h"

namespace fovea {

/// The runs of one row, or of one trial of a row: a seed each.
struct ComparedRow {
  std::string title, trial;
  std::vector<RunResult> runs;

  /// Without the runs that failed.
  std::vector<const RunResult*> finished() const;
  /// The best run on the development set; the first one of equals. There must be a finished run.
  const RunResult& best() const;
  /// By the number of runs that failed, then by the mean score on the development set.
  bool is_better_than(const ComparedRow& other) const;
};

/// The row with the best run on the development set.
const ComparedRow& best_of(const std::vector<ComparedRow>& rows);
/// Whether all rows select their models by the same score (--select may differ). Otherwise no row is the best.
bool have_one_dev_score(const std::vector<ComparedRow>& rows);
bool all_failed(const std::vector<ComparedRow>& rows);

/// The score `k` of the row's test set `set`, pooled over its seeds: the statistics of an example are the mean of those
/// of its seeds. There must be a finished run.
TextScore pooled_score(const ComparedRow& row, std::size_t set, std::size_t k);

/// A row for each: the scores and measurements of every test set, p of the first score against the first row,
/// parameters and speed.
Table comparison_table(const std::vector<ComparedRow>& rows);

/// What the table's columns are, and which runs failed.
std::string comparison_caption(const std::vector<ComparedRow>& rows);

/// Every trial of a search with its score on the development set.
Table trials_table(const std::vector<ComparedRow>& trials);

}  // namespace fovea
