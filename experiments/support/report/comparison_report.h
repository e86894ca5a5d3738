/// The page about runs: tables, tests, learning curves, examples, pictures of attentions, and how
/// the runs were made. Comparisons write it when their training ends, `report` for any runs.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/report/finding.h"
#include "experiments/support/report/run_collection.h"

namespace fovea {

struct ComparisonReport {
  std::string title;
  std::vector<RunGroup> groups;          ///< a table for each, and sections of the page; a row holds the chosen trial
  std::vector<ComparedRow> trials = {};  ///< all trials of a search; empty without one
};

/// The tables and learning curves of the groups; a page has more sections, of less than about 1.5 MB for each group.
/// Reads only the records in the runs' directories.
Finding finding_of(const ComparisonReport& report);

}  // namespace fovea
