/// The table of a comparison: a row for each model, with the means over its seeds.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/metrics/text_metrics.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/record/record.h"
#include "experiments/support/report/table.h"

namespace fovea {

/// The runs of one row, or of one trial of a row, one for each seed.
struct ComparedRow {
  std::string title, trial;
  std::vector<RunResult> runs;

  /// The title, followed by the trial if there is one.
  std::string full_title() const;
  /// The runs that did not fail.
  std::vector<const RunResult*> finished() const;
  /// The best run on the development set, the first of several equal ones. There must be a finished run.
  const RunResult& best() const;
  /// Whether fewer runs failed; of equally many, whether the mean score on the development set is better.
  bool is_better_than(const ComparedRow& other) const;
};

/// The row with the best run on the development set.
const ComparedRow& best_of(const std::vector<ComparedRow>& rows);
/// Whether a row can be called the best: all select their models by the same score (--select may differ), which is not
/// 0 for each of them.
bool have_best(const std::vector<ComparedRow>& rows);
bool all_failed(const std::vector<ComparedRow>& rows);
/// The rows without the trials of a search that lost: of those with one title in one directory only the best stays.
std::vector<ComparedRow> without_lost_trials(const std::vector<ComparedRow>& rows);

/// A score of one run's test set; null if it has none of this name.
const TextScore* score_of(const RunResult& run, const std::string& set, const std::string& metric);

/// The value of a score or a measurement; NaN if the test set has none of this name.
double value_of(const TestResult& test, const std::string& name);

/// A score pooled over the runs of a row, one for each seed: the statistics of an example are the means over the runs.
/// Empty if a run does not have it or was tested on other examples.
std::optional<TextScore> pooled_score(const std::vector<const RunResult*>& runs, const std::string& set,
                                      const std::string& metric);

/// The only p of tables: a two-sided paired bootstrap over the test examples of the difference between two rows, pooled
/// over their seeds. NaN if the rows were tested on other examples.
double p_of(const std::vector<const RunResult*>& baseline, const std::vector<const RunResult*>& row,
            const std::string& set, const std::string& metric);

/// The table, with a line for each row: scores and measurements of every test set, p of the first score against the
/// first row (or the first finished one if all its runs failed), parameters and speed.
Table comparison_table(const std::vector<ComparedRow>& rows);

/// The text below the table: sizes of the test sets, explanations of columns, and failed runs.
std::string comparison_caption(const std::vector<ComparedRow>& rows);

/// "1.20 to 3.45"; empty for an interval that is not known, whose ends are NaN.
std::string interval_text(Interval interval, int decimals);

/// Every trial of a search with its score on the development set.
Table trials_table(const std::vector<ComparedRow>& trials);

// ---- The scores of one or several systems: rows for programs to read, and a table of them.

/// The scores of all systems, metric by metric, with bootstrap intervals, and how each system compares with the first:
/// {"metric": "BLEU", "system": "a.txt", "value": 24.77, "decimals": 2, "low": ..., "high": ..., "difference": ...,
/// "difference_low": ..., "difference_high": ..., "p": ..., "p_koehn": ..., "line": ...}. The first system has no
/// difference; with options.resamples 0 there are no intervals and no tests; p is two-sided. Score k of each system
/// must be of the same metric.
std::vector<Json> score_rows(const std::vector<std::string>& systems, const std::vector<std::vector<TextScore>>& scores,
                             const BootstrapOptions& options);

/// The table of the rows.
Table table_of_scores(const std::vector<Json>& rows);

/// The table for a terminal, followed by the metrics' own lines.
std::string score_table(const std::vector<Json>& rows);

}  // namespace fovea
