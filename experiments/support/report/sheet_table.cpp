// Sheets as tables: the paper's numbers beside ours.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/core.h>

#include "experiments/support/report/comparison_table.h"
#include "experiments/support/report/sheet.h"
#include "experiments/support/text/words.h"

namespace fovea {

namespace {

/// The data of a run for readers: "generated", or the path without the directory of the public data, of other absolute
/// paths the last two parts.
std::string data_name(const RunResult& run) {
  constexpr std::string_view public_data = "{data}/";
  const std::string data = run.configuration.value("data", "");
  if (data.starts_with("generated")) return "generated";
  if (data.starts_with(public_data)) return data.substr(public_data.size());
  const std::filesystem::path path = data;
  return path.is_absolute() ? path.parent_path().filename() / path.filename() : path;
}

/// The data of all runs of a task.
std::string data_of(const SheetRuns& runs, const std::string& task) {
  std::set<std::string> names;
  for (const auto& [key, all] : runs)
    for (const RunResult* run : all)
      if (key.second == task) names.insert(data_name(*run));
  return listed(std::vector<std::string>(names.begin(), names.end()), ", ");
}

bool has_runs(const SheetRuns& runs, const std::string& task) {
  return std::ranges::any_of(runs, [&](const auto& row) { return row.first.second == task; });
}

bool has_ours(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column) {
  return std::ranges::any_of(sheet.rows, [&](const Sheet::Row& row) { return !our_values(runs, column, row).empty(); });
}

/// Whether the column has tests against the first row: the first score of each task that its runs have.
bool is_tested(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column) {
  const auto is_score = [&](const Sheet::Column& one) {
    const SeedRuns& plain = runs_of(runs, sheet.rows.front().name, one.task);
    return one.task == column.task && !plain.empty() && !plain.front()->tests.empty() &&
           score_of(*plain.front(), plain.front()->tests.front().set, one.metric);
  };
  const auto first = std::ranges::find_if(sheet.columns, is_score);
  return first != sheet.columns.end() && &*first == &column;
}

/// Appends a column of the sheet as up to four of the table: the paper's number, ours, p and the interval of the
/// difference from the first row.
void add_columns(std::vector<Column<Sheet::Row>>& columns, const Sheet& sheet, const SheetRuns& runs,
                 const Sheet::Column& column) {
  const bool has_tasks = sheet.tasks.size() > 1;  // they have the paper's names, so that ours need their own
  const std::string of_task = has_tasks ? column.task + " " : "", name = of_task + column.heading;
  if (column.is_printed)
    columns.push_back({name + ", paper", [&](const Sheet::Row& row) {
                         return Cell::number(printed(sheet, column, row), column.decimals);
                       }});
  if (!has_ours(sheet, runs, column)) return;
  const bool is_constant = column.metric == "parameters";  // the same for every seed
  columns.push_back({name + ", ours" + (has_tasks ? fmt::format(" ({})", data_of(runs, column.task)) : ""),
                     [&, is_constant](auto& row) {
                       const std::vector<double> values = our_values(runs, column, row);
                       return is_constant ? Cell::number(mean(values), column.decimals)
                                          : Cell::mean_of(values, column.decimals);
                     }});
  if (!is_tested(sheet, runs, column)) return;
  const Sheet::Row& plain = sheet.rows.front();
  const SeedRuns& first = runs_of(runs, plain.name, column.task);
  const auto is_compared = [&](const Sheet::Row& row) {
    return row.name != plain.name && !runs_of(runs, row.name, column.task).empty();
  };
  columns.push_back({of_task + "p", [&, is_compared](const Sheet::Row& row) {
                       if (!is_compared(row)) return Cell();
                       const SeedRuns& of_row = runs_of(runs, row.name, column.task);
                       return Cell::number(p_of(first, of_row, first.front()->tests.front().set, column.metric), 3);
                     }});
  columns.push_back({of_task + "difference", [&, is_compared, spread = spread_of(sheet, runs, column)](auto& row) {
                       if (!is_compared(row)) return Cell();
                       const SeededDifference difference = seeded_difference(seeded_score(runs, column, row),
                                                                             seeded_score(runs, column, plain), spread);
                       return Cell(interval_text(difference, column.decimals));
                     }});
}

}  // namespace

Table sheet_table(const Sheet& sheet, const SheetRuns& runs) {
  std::vector<Column<Sheet::Row>> columns{
      {"model", [](const Sheet::Row& row) { return Cell(row.is_cited ? row.name + " (cited)" : row.name); }}};
  for (const Sheet::Column& column : sheet.columns) add_columns(columns, sheet, runs, column);
  std::vector<Sheet::Row> rows = sheet.rows;
  std::erase_if(rows, [&](const Sheet::Row& row) {
    return !row.is_cited && std::ranges::none_of(sheet.columns, [&](const Sheet::Column& column) {
      return !std::isnan(printed(sheet, column, row)) || !our_values(runs, column, row).empty();
    });
  });
  return table_of(columns, rows);
}

std::vector<Finding::NamedTable> tables_of(const Sheet& sheet, const SheetRuns& runs) {
  std::vector<Finding::NamedTable> tables{{sheet.title, sheet_table(sheet, runs), sheet_caption(sheet, runs)}};
  if (sheet.claims.empty()) return tables;
  Table table({"statement", "difference, paper", "ours", "difference, ours (95 % interval)", "verdict"});
  for (const CheckedClaim& one : check_claims(sheet, runs)) table.row(one.cells());
  tables.push_back({.name = "Statements about the table", .table = table});
  return tables;
}

std::string setting_of(const Sheet& sheet, const SheetRuns& runs) {
  std::string setting = sheet.about;
  for (const Sheet::Task& task : sheet.tasks) {
    const std::string our_data = data_of(runs, task.name);
    if (!our_data.empty())
      setting += fmt::format(" Data{}: {} here, {} in the paper.", sheet.tasks.size() > 1 ? " of " + task.name : "",
                             our_data, task.data);
  }
  return setting;
}

std::string sheet_caption(const Sheet& sheet, const SheetRuns& runs) {
  std::string setting = setting_of(sheet, runs);
  if (runs.empty()) return setting + " None of our runs belongs to a row.";
  std::set<std::size_t> seeds;
  for (const auto& [key, of_row] : runs) seeds.insert(of_row.size());
  std::vector<std::string> missing;  // scores that no run has
  for (const Sheet::Column& column : sheet.columns)
    if (!column.metric.empty() && has_runs(runs, column.task) && !has_ours(sheet, runs, column))
      missing.push_back((sheet.tasks.size() > 1 ? column.task + " " : "") + column.heading);
  if (!missing.empty()) setting += fmt::format(" None of our runs has {}.", alternatives(missing));
  const bool has_one_seed = seeds == std::set<std::size_t>{1};
  const std::string caption = setting +
                              " Where the data differ, compare the order of the rows, not the values. Ours: " +
                              (has_one_seed ? "one seed." : "mean ± standard deviation over seeds.");
  const bool has_tests =
      std::ranges::any_of(sheet.columns, [&](const Sheet::Column& column) { return is_tested(sheet, runs, column); });
  if (!has_tests) return caption;
  return caption + fmt::format(
                       " p: against '{}', two-sided paired bootstrap over the test examples, all seeds pooled, which "
                       "says nothing about other seeds; the papers' tests may be others. Difference: from the same "
                       "row, the 95 % interval, which also covers other seeds if any row has several.",
                       sheet.rows.front().name);
}

std::string untrained(const Sheet& sheet, const SheetRuns& runs, const std::string& tier) {
  const std::string& plain = sheet.rows.front().name;
  for (const Sheet::Column& column : sheet.columns) {
    const double value = mean(our_values(runs, column, sheet.rows.front()));
    const auto least = column.trained.find(tier);
    if (least == column.trained.end() || !has_runs(runs, column.task)) continue;
    if (std::isnan(value)) return fmt::format("{} has no {}", plain, column.heading);
    const bool higher_is_better = !column.metric.ends_with("perplexity");
    if (higher_is_better ? value < least->second : value > least->second)
      return fmt::format("{} {:.{}f} of {} is {} {}", column.heading, value, column.decimals, plain,
                         higher_is_better ? "below" : "above", least->second);
  }
  return "";
}

}  // namespace fovea
