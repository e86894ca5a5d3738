/// Tables of a search for learning rates (NeededRuns::search()).
#pragma once
#include <vector>

#include "experiments/support/reproduce/needed_runs.h"

namespace fovea {

/// The runs with searched learning rates; none unless NeededRuns::is_searched().
SheetRuns searched_runs(NeededRuns& needed, const Sheet& sheet);

/// For each task the scores on the development set that decided about the learning rates, a row for each row of the
/// sheet; none without a search.
std::vector<Finding::NamedTable> search_tables(NeededRuns& needed, const Sheet& sheet);

}  // namespace fovea
