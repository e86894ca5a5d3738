/// Tables of a search for learning rates (NeededRuns::search()).
#pragma once
#include <optional>

#include "experiments/support/reproduce/boxes.h"

namespace fovea {

/// The runs with searched learning rates; none unless NeededRuns::is_searched().
SheetRuns searched_runs(NeededRuns& needed, const Sheet& sheet);

/// The scores on the development set that decided about the learning rates, a row for each row of the sheet; nothing
/// without a search.
std::optional<Finding::NamedTable> search_table(NeededRuns& needed, const Sheet& sheet);

}  // namespace fovea
