/// The scores of one or several systems: rows for programs to read, and a table of them.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/metrics/text_metrics.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/report/table.h"

namespace fovea {

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
