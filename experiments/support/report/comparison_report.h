/// The page about runs: tables, tests, learning curves, examples, pictures of attentions, and how
/// the runs were made. Comparisons write it when their training ends, `report` for any runs.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"
#include "experiments/support/report/html.h"
#include "experiments/support/report/run_collection.h"

namespace fovea {

struct ComparisonReport {
  std::string title, subtitle;           ///< the subtitle is a line about the data, for example
  std::vector<RunGroup> groups;          ///< one section per group; a row holds the chosen trial
  std::vector<ComparedRow> trials = {};  ///< all trials of a search; empty without one
  std::string baseline = {};             ///< the row that the others are tested against; empty: the first
};

/// The row that the others of a group are tested against: the one with this title, or the first.
std::size_t baseline_of(const RunGroup& group, const std::string& title);

/// The page, of less than about 1 MB for each group. Reads only the records in the runs' directories.
Report page_of(const ComparisonReport& report);

/// Every score of a group's first seeds and tests, with intervals: the long form of its table.
Table score_table(const RunGroup& group, const std::string& set, std::size_t baseline);

}  // namespace fovea
