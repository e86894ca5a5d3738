#include "experiments/support/reproduce/rate_search.h"

#include <cmath>

#include <fmt/core.h>

namespace fovea {

SheetRuns searched_runs(NeededRuns& needed, const Sheet& sheet) {
  return needed.is_searched(sheet) ? needed.finished(sheet, Rates::searched) : SheetRuns();
}

std::optional<Finding::NamedTable> search_table(NeededRuns& needed, const Sheet& sheet) {
  std::optional<Finding::NamedTable> found;
  for (const Sheet::Task& task : sheet.tasks)
    for (const Sheet::Row& row : sheet.rows) {
      if (row.is_cited) continue;
      const auto search = needed.search(sheet, row, task);
      if (!search) continue;
      const auto rate_text = [](const std::string& rate) { return rate.empty() ? "the recipe's rate" : rate; };
      std::vector<std::string> headings{"model"};
      std::vector<Cell> cells{row.name + (sheet.tasks.size() > 1 ? ", " + task.name : "")};
      for (const auto& [rate, score] : search->scores) {
        headings.push_back(rate_text(rate));
        cells.push_back(Cell::number(score, 2).strong(rate == search->chosen && !std::isnan(score)));
      }
      if (!found)
        found = {.name = sheet.title + ": search for learning rates",
                 .table = Table(headings),
                 .caption = fmt::format("{} on the development set, of short trainings with one seed ({}). The best "
                                        "rate of each row is bold.",
                                        search->score, sheet.recipe(task).tiers.at(needed.tier()).search_flags)};
      found->table.row(cells);
    }
  return found;
}

}  // namespace fovea
