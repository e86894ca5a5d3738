/// The two pages of `reproduce`: the report on its items, and the page of results about the papers' statements.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/reproduce/items.h"

namespace fovea {

/// The reasons why an item does not count as done, a sentence each; none if it is done.
std::vector<std::string> problems_of(NeededRuns& needed, const Item& item);

/// The report on all items, in their order. `problems`: those of each item.
Finding report_on(NeededRuns& needed, const std::vector<Item>& items,
                  const std::vector<std::vector<std::string>>& problems);

/// Writes the page of results as Markdown, atomically: how methods differ from plain attention (sheets with
/// Sheet::compares_methods), our own words about each paper, if experiments/sheets/PAPER.md has any ("nguyen.md"), the
/// verdicts on the papers' statements, and how all of it was made. Throws Error if no run is finished, and if a record
/// is damaged.
void write_results(NeededRuns& needed, const std::vector<Item>& items, const std::filesystem::path& file);

}  // namespace fovea
