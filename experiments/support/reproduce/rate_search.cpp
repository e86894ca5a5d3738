#include "experiments/support/reproduce/rate_search.h"

#include <cmath>

#include <fmt/core.h>

namespace fovea {

SheetRuns searched_runs(NeededRuns& needed, const Sheet& sheet) {
  return needed.is_searched(sheet) ? needed.finished(sheet, Rates::searched) : SheetRuns();
}

std::vector<Finding::NamedTable> search_tables(NeededRuns& needed, const Sheet& sheet) {
  std::vector<Finding::NamedTable> tables;
  for (const Sheet::Task& task : sheet.tasks) {
    std::optional<Table> table;
    std::string score;
    for (const Sheet::Row& row : sheet.rows) {
      const auto search = row.is_cited ? std::nullopt : needed.search(sheet, row, task);
      if (!search) continue;
      if (score.empty()) score = search->score;
      std::vector<std::string> headings{"model"};
      std::vector<Cell> cells{row.name};
      for (const auto& [rate, value] : search->scores) {
        headings.push_back(rate.empty() ? "the given rate" : rate);
        cells.push_back(std::isnan(value) ? Cell("failed") : Cell::number(value, 2).strong(rate == search->chosen));
      }
      if (!table) table = Table(headings);
      table->row(cells);
    }
    if (!table) continue;
    tables.push_back(
        {.name = sheet.title + ": search for learning rates" + (sheet.tasks.size() > 1 ? ", " + task.name : ""),
         .table = *table,
         .caption = fmt::format(
             "The best {} on the development set of short trainings with one seed and "
             "the flags {}. The best of each row is bold, and its rate is chosen; the given one if all failed.",
             score.empty() ? "score" : score, sheet.recipe(task).tiers.at(needed.tier()).search_flags)});
  }
  return tables;
}

}  // namespace fovea
