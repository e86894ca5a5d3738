/// The page of results: what the papers state, beside what the finished runs say about it.
#pragma once
#include <filesystem>
#include <vector>

#include "experiments/support/reproduce/planned_items.h"

namespace fovea {

/// Writes the page as Markdown, atomically. A section for each paper with finished runs: our own words about it, if
/// experiments/sheets/PAPER.md has any ("nguyen.md"); the verdicts on its statements; its tables, with the learning
/// rates of the recipes and, where all rows were searched, with searched ones; and how all of it was made. Throws Error
/// if no run is finished, if a record is damaged, and for a file that exists and is not such a page.
void write_results(NeededRuns& needed, const std::vector<PlannedItem>& items, const std::filesystem::path& file);

}  // namespace fovea
