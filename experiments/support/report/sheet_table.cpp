// Sheets as tables: the paper's numbers beside ours.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include <fmt/core.h>

#include "experiments/support/report/comparison_table.h"
#include "experiments/support/report/sheet.h"
#include "experiments/support/report/sheet_numbers.h"
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

bool has_ours(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column) {
  return std::any_of(sheet.rows.begin(), sheet.rows.end(),
                     [&](const Sheet::Row& row) { return !our_values(runs, column, row).empty(); });
}

/// Whether the column has tests against the first row: the first score of each task that its runs have.
bool is_tested(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column) {
  const auto is_score = [&](const Sheet::Column& one) {
    const SeedRuns& plain = runs_of(runs, sheet.rows.front().name, one.task);
    return one.task == column.task && !plain.empty() && !plain.front()->tests.empty() &&
           score_of(*plain.front(), plain.front()->tests.front().set, one.metric);
  };
  const auto first = std::find_if(sheet.columns.begin(), sheet.columns.end(), is_score);
  return first != sheet.columns.end() && &*first == &column;
}

/// A column of the sheet as up to four of the table: the paper's number, ours, p and the interval of the difference.
class PrintedColumn {
 public:
  PrintedColumn(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column)
      : sheet_(&sheet), runs_(&runs), column_(&column), has_ours_(has_ours(sheet, runs, column)) {
    if (has_ours_ && is_tested(sheet, runs, column)) spread_ = spread_of(sheet, runs, column);
  }

  std::vector<std::string> headings() const {
    const bool has_tasks = sheet_->tasks.size() > 1;  // they have the paper's names, so that ours need their own
    const std::string name = (has_tasks ? column_->task + " " : "") + column_->heading;
    const std::string our_data = has_tasks ? fmt::format(" ({})", data_of(*runs_, column_->task)) : "";
    std::vector<std::string> all;
    if (column_->is_printed) all.push_back(name + ", paper");
    if (has_ours_) all.push_back(name + ", ours" + our_data);
    const std::string of_task = has_tasks ? column_->task + " " : "";
    if (spread_) all.insert(all.end(), {of_task + "p", of_task + "difference"});
    return all;
  }

  /// Appends the cells of a row. Returns whether there is a number among the paper's and ours.
  bool append(std::vector<Cell>& cells, const Sheet::Row& row) const {
    const double of_paper = printed(*sheet_, *column_, row);
    if (column_->is_printed) cells.push_back(Cell::number(of_paper, column_->decimals));
    const std::vector<double> values = our_values(*runs_, *column_, row);
    const bool is_constant = column_->metric == "parameters";  // the same for every seed
    if (has_ours_)
      cells.push_back(is_constant ? Cell::number(mean(values), column_->decimals)
                                  : Cell::mean_of(values, column_->decimals));
    if (spread_) append_test(cells, row);
    return !std::isnan(of_paper) || !values.empty();
  }

 private:
  void append_test(std::vector<Cell>& cells, const Sheet::Row& row) const {
    const Sheet::Row& plain = sheet_->rows.front();
    const SeedRuns& first = runs_of(*runs_, plain.name, column_->task);
    const SeedRuns& of_row = runs_of(*runs_, row.name, column_->task);
    if (&row == &plain || of_row.empty()) {
      cells.resize(cells.size() + 2);
      return;
    }
    cells.push_back(Cell::number(p_of(first, of_row, first.front()->tests.front().set, column_->metric), 3));
    const SeededDifference difference =
        seeded_difference(seeded_score(*runs_, *column_, row), seeded_score(*runs_, *column_, plain), *spread_);
    cells.emplace_back(interval_text(difference, column_->decimals));
  }

  const Sheet* sheet_;
  const SheetRuns* runs_;
  const Sheet::Column* column_;
  bool has_ours_;
  std::optional<SeedSpread> spread_;  ///< there are tests
};

}  // namespace

Table sheet_table(const Sheet& sheet, const SheetRuns& runs) {
  std::vector<PrintedColumn> columns;
  std::vector<std::string> headings{"model"};
  for (const Sheet::Column& column : sheet.columns) {
    const std::vector<std::string> more = columns.emplace_back(sheet, runs, column).headings();
    headings.insert(headings.end(), more.begin(), more.end());
  }
  Table table(headings);
  bool cites = false;
  for (const Sheet::Row& row : sheet.rows) {
    if (row.is_cited && !cites) table.rule();
    cites = row.is_cited;
    std::vector<Cell> cells{row.is_cited ? row.name + " (cited)" : row.name};
    bool has_numbers = row.is_cited;
    for (const PrintedColumn& column : columns) has_numbers = column.append(cells, row) || has_numbers;
    if (has_numbers) table.row(std::move(cells));
  }
  return table;
}

Finding::NamedTable table_of(const Sheet& sheet, const SheetRuns& runs) {
  return {sheet.title, sheet_table(sheet, runs), sheet_caption(sheet, runs)};
}

std::vector<Finding::NamedTable> tables_of(const Sheet& sheet, const SheetRuns& runs) {
  std::vector<Finding::NamedTable> tables{table_of(sheet, runs)};
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
  const std::string setting = setting_of(sheet, runs);
  if (runs.empty()) return setting + " None of our runs belongs to a row.";
  std::set<std::size_t> seeds;
  for (const auto& [key, of_row] : runs) seeds.insert(of_row.size());
  const bool has_one_seed = seeds == std::set<std::size_t>{1};
  const std::string caption = setting +
                              " Where the data differ, compare the order of the rows, not the values. Ours: " +
                              (has_one_seed ? "one seed." : "mean ± standard deviation over seeds.");
  const bool has_tests = std::any_of(sheet.columns.begin(), sheet.columns.end(),
                                     [&](const Sheet::Column& column) { return is_tested(sheet, runs, column); });
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
    const bool is_of_task =
        std::any_of(runs.begin(), runs.end(), [&](const auto& row) { return row.first.second == column.task; });
    const auto least = column.trained.find(tier);
    if (least == column.trained.end() || !is_of_task) continue;
    if (std::isnan(value)) return fmt::format("{} has no {}", plain, column.heading);
    const bool higher_is_better = !column.metric.ends_with("perplexity");
    if (higher_is_better ? value < least->second : value > least->second)
      return fmt::format("{} {:.{}f} of {} is {} {}", column.heading, value, column.decimals, plain,
                         higher_is_better ? "below" : "above", least->second);
  }
  return "";
}

}  // namespace fovea
