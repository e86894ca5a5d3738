/// The scores of one or several systems: a table, and rows for programs to read.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/metrics/text_metrics.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/report/table.h"

namespace fovea {

/// A system's score by one metric, its bootstrap interval, and how it compares with the first system.
struct ScoreRow {
  std::string metric, system, line;
  double value = 0;
  int decimals = 2;
  std::optional<double> difference;              ///< from the first system; empty for the first system itself
  std::optional<Interval> interval;              ///< empty without resamples
  std::optional<PairedBootstrap> against_first;  ///< empty for the first system and without resamples
};

/// The rows of all systems, metric by metric. Score k of each system must be of the same metric. With options.resamples
/// 0 there are no intervals and no tests.
std::vector<ScoreRow> score_rows(const std::vector<std::string>& systems,
                                 const std::vector<std::vector<TextScore>>& scores, const BootstrapOptions& options);

/// The table of the rows. p is two-sided.
Table table_of(const std::vector<ScoreRow>& rows);

/// The table for a terminal, followed by the metrics' own lines.
std::string score_table(const std::vector<ScoreRow>& rows);

/// {"metric": "BLEU", "system": "a.txt", "value": 24.77, "low": ..., "high": ..., "difference": ..., "p": ...}
Json score_json(const ScoreRow& row);

}  // namespace fovea
