// Sheets as tables: the paper's numbers beside ours, and what a table must show.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/core.h>

#include "experiments/support/metrics/lead.h"
#include "experiments/support/metrics/statistics.h"
#include "experiments/support/report/comparison_table.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/report/sheet.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

using Runs = SeedRuns;

const Runs& runs_of(const SheetRuns& all, const std::string& row, const std::string& task) {
  static const Runs none;
  auto found = all.find({row, task});
  return found == all.end() ? none : found->second;
}

double mean_of_metrics(const RunResult& run, std::string_view list) {
  std::vector<double> values;
  for (std::string_view metric : split_columns(list, ',')) values.push_back(measured(run, trimmed(metric)));
  return mean(values);
}

double of_training(const RunResult& run, const std::string& metric) {
  if (!run.training) return std::nan("");
  if (metric == "steps/s") return run.training->steps_per_cpu_second();
  return metric == "dev " + run.training->score_name ? run.training->best_score : std::nan("");
}

/// The percentage of an attention within a distance: "2: encoder.last.attention".
double within(const TestResult& test, const std::string& metric) {
  const std::size_t colon = metric.find(": "), first_dot = metric.find('.'), last_dot = metric.rfind('.');
  require(colon < first_dot && first_dot < last_dot && last_dot != std::string::npos,
          "'within {}': expected within DISTANCE: STACK.LAYER.ATTENTION", metric);
  const std::string layer = metric.substr(first_dot + 1, last_dot - first_dot - 1);
  const int distance = number<int>(metric.substr(0, colon)).value_or(-1);
  std::vector<double> of_layers;
  for (int k = 0;; ++k) {
    auto found = test.attention_within.find(
        fmt::format("{}.{}{}", metric.substr(colon + 2, first_dot - colon - 2), k, metric.substr(last_dot)));
    if (found == test.attention_within.end() || !found->second.contains(distance)) break;
    of_layers.push_back(found->second.at(distance));
  }
  if (of_layers.empty() || (layer == "middle" && of_layers.size() < 3)) return std::nan("");
  return layer == "first"  ? of_layers.front()
         : layer == "last" ? of_layers.back()
                           : of_layers[of_layers.size() / 2 - 1];
}

/// A run whose answers are the first sentences of the inputs, on the test examples of another run. A reduced record has
/// no inputs, and gives none.
RunResult lead_of(const RunResult& run, int sentences) {
  RunResult result;
  if (run.tests.empty() || !run.tests.front().known_key.empty()) return result;
  TestResult& test = result.tests.emplace_back(
      TestResult{.examples = run.tests.front().examples, .metrics = run.tests.front().metrics});
  test.options = run.tests.front().options;
  for (TestedExample& example : test.examples) example.hypothesis = lead(example.input, sentences);
  return result;
}

/// Ours in the units of the column, a value for each run of the row.
std::vector<double> ours(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column,
                         const Sheet::Row& row) {
  std::string metric = column.metric;
  if (const std::size_t at = metric.find("$part"); at != std::string::npos) metric.replace(at, 5, row.part);
  std::vector<double> values;
  auto add = [&](const RunResult& run) {
    const double value = measured(run, metric);
    if (!std::isnan(value)) values.push_back(column.factor * value);
  };
  if (row.lead == 0)
    for (const RunResult* run : runs_of(runs, row.name, column.task)) add(*run);
  else if (const Runs& plain = runs_of(runs, sheet.rows.front().name, column.task); !plain.empty())
    add(lead_of(*plain.front(), row.lead));  // the same for all seeds
  return values;
}

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

bool have(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column) {
  return std::any_of(sheet.rows.begin(), sheet.rows.end(),
                     [&](const Sheet::Row& row) { return !ours(sheet, runs, column, row).empty(); });
}

/// The values of runs in a column; with the scores that they are made of, if it is a score.
SeededScore seeded_score(std::vector<double> values, const Runs& runs, const Sheet::Column& column) {
  SeededScore scores{.values = std::move(values), .factor = column.factor};
  for (const RunResult* run : runs)
    if (const TextScore* score = run->tests.empty() ? nullptr : score_of(*run, run->tests.front().set, column.metric))
      scores.metrics.push_back(score->metric);
  const bool is_one_test = scores.metrics.size() == scores.values.size() &&
                           std::all_of(scores.metrics.begin(), scores.metrics.end(), [&](const SummedMetric& one) {
                             return one.examples() == scores.metrics.front().examples();
                           });
  if (!is_one_test) scores.metrics.clear();
  return scores;
}

SeededScore seeded_score(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column,
                         const Sheet::Row& row) {
  return seeded_score(ours(sheet, runs, column, row), runs_of(runs, row.name, column.task), column);
}

/// The spread between seeds, of all runs that are alike or, if these do not have the column, of the sheet's rows.
SeedSpread spread_of(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column) {
  std::vector<SeededScore> rows;
  if (const auto alike = runs.alike.find(column.task); alike != runs.alike.end())
    for (const SeedRuns& seeds : alike->second) {
      std::vector<double> values;
      for (const RunResult* run : seeds)
        if (const double value = measured(*run, column.metric); !std::isnan(value))
          values.push_back(column.factor * value);
      rows.push_back(seeded_score(std::move(values), seeds, column));
    }
  const bool have_it =
      std::any_of(rows.begin(), rows.end(), [](const SeededScore& row) { return row.values.size() > 1; });
  if (!have_it) {
    rows.clear();
    for (const Sheet::Row& row : sheet.rows) rows.push_back(seeded_score(sheet, runs, column, row));
  }
  return seed_spread(rows);
}

std::string interval_text(const SeededDifference& difference, int decimals) {
  const auto [low, high] = difference.interval();
  return std::isnan(low) ? "" : fmt::format("{:.{}f} to {:.{}f}", low, decimals, high, decimals);
}

/// Whether a column p follows: only after the first score of a task.
bool has_p(const Sheet& sheet, std::size_t c, const SheetRuns& runs) {
  const Sheet::Column& column = sheet.columns[c];
  for (std::size_t before = 0; before < c; ++before)
    if (sheet.columns[before].task == column.task && has_p(sheet, before, runs)) return false;
  const Runs& plain = runs_of(runs, sheet.rows.front().name, column.task);
  return !plain.empty() && score_of(*plain.front(), plain.front()->tests.front().set, column.metric);
}

}  // namespace

double measured(const RunResult& run, const std::string& metric) {
  constexpr std::string_view mean_prefix = "mean:";
  if (metric.starts_with(mean_prefix)) return mean_of_metrics(run, metric.substr(mean_prefix.size()));
  if (metric == "parameters") return static_cast<double>(run.parameters);
  if (metric == "steps/s" || metric.starts_with("dev ")) return of_training(run, metric);
  if (run.tests.empty()) return std::nan("");
  const TestResult& test = run.tests.front();
  constexpr std::string_view within_prefix = "within ";
  if (metric.starts_with(within_prefix)) return within(test, metric.substr(within_prefix.size()));
  if (metric == "source length") return test.source_length.value_or(std::nan(""));
  if (metric == "ms/sentence")
    return test.decoding ? 1000 * test.decoding->cpu / static_cast<double>(test.examples.size()) : std::nan("");
  if (const TextScore* score = score_of(run, test.set, metric)) return score->metric.value();
  for (const Measurement& one : test.measurements)
    if (one.name == metric) return one.value;
  // A model without windows scores the whole source at every step.
  return metric == "window" ? test.source_length.value_or(std::nan("")) : std::nan("");
}

Table sheet_table(const Sheet& sheet, const SheetRuns& runs) {
  std::vector<std::string> headings{"model"};
  std::vector<bool> shown, tested;
  std::vector<SeedSpread> spreads;
  for (std::size_t c = 0; c < sheet.columns.size(); ++c) {
    const Sheet::Column& column = sheet.columns[c];
    const std::string task = sheet.tasks.size() > 1 ? column.task + " " : "";
    shown.push_back(have(sheet, runs, column));
    tested.push_back(shown.back() && has_p(sheet, c, runs));
    if (column.is_printed) headings.push_back(task + column.heading + ", paper");
    if (shown.back()) headings.push_back(task + column.heading + ", ours");
    spreads.push_back(tested.back() ? spread_of(sheet, runs, column) : SeedSpread());
    if (tested.back()) headings.insert(headings.end(), {"p", "difference"});
  }
  Table table(headings);
  const Sheet::Row& plain = sheet.rows.front();
  bool cites = false;
  for (const Sheet::Row& row : sheet.rows) {
    if (row.is_cited && !cites) table.rule();
    cites = row.is_cited;
    std::vector<Cell> cells{row.is_cited && row.lead == 0 ? row.name + " (cited)" : row.name};
    std::size_t printed = 0;
    bool has_numbers = row.is_cited;
    for (std::size_t c = 0; c < sheet.columns.size(); ++c) {
      const Sheet::Column& column = sheet.columns[c];
      const Runs& of_row = runs_of(runs, row.name, column.task);
      if (column.is_printed) {
        const double number = printed < row.printed.size() ? row.printed[printed] : std::nan("");
        cells.push_back(Cell::number(number, column.decimals));
        has_numbers = has_numbers || !std::isnan(number);
        ++printed;
      }
      const std::vector<double> values = ours(sheet, runs, column, row);
      has_numbers = has_numbers || !values.empty();
      const bool is_constant = column.metric == "parameters";  // the same for every seed
      if (shown[c])
        cells.push_back(is_constant ? Cell::number(mean(values), column.decimals)
                                    : Cell::mean_of(values, column.decimals));
      if (!tested[c]) continue;
      const Runs& first = runs_of(runs, plain.name, column.task);
      const bool compares = &row != &plain && !of_row.empty();
      cells.push_back(compares ? Cell::number(p_of(first, of_row, first.front()->tests.front().set, column.metric), 3)
                               : Cell());
      cells.emplace_back(compares
                             ? interval_text(seeded_difference(seeded_score(sheet, runs, column, row),
                                                               seeded_score(sheet, runs, column, plain), spreads[c]),
                                             column.decimals)
                             : "");
    }
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
  bool tests = false;
  for (std::size_t c = 0; c < sheet.columns.size(); ++c) tests = tests || has_p(sheet, c, runs);
  if (!tests) return caption;
  return caption + fmt::format(
                       " p: against '{}', two-sided paired bootstrap over the test examples, all seeds pooled, which "
                       "says nothing about other seeds; the papers' tests may be others. Difference: from the same "
                       "row, the 95 % interval, which also covers other seeds where rows have several.",
                       sheet.rows.front().name);
}

// ---- Claims

namespace {

/// A number, or one of the table.
struct Operand {
  const Sheet::Row* row = nullptr;
  const Sheet::Column* column = nullptr;
  std::string heading = {};
  double value = std::nan(""), paper = std::nan("");  ///< ours, and the paper's
};

/// The paper's number; NaN if it has none.
double printed(const Sheet& sheet, const Sheet::Column& column, const Sheet::Row& row) {
  const auto is_printed = [](const Sheet::Column& one) { return one.is_printed; };
  const auto place = std::count_if(sheet.columns.data(), &column, is_printed);
  const bool has_one = column.is_printed && place < std::ssize(row.printed);
  return has_one ? row.printed[static_cast<std::size_t>(place)] : std::nan("");
}

/// "BLEU[Enc (AW)]", or a number.
Operand operand_of(const Sheet& sheet, const SheetRuns& runs, const std::string& text) {
  if (const std::optional<double> value = number<double>(text)) return {.value = *value, .paper = *value};
  const std::size_t open = text.find('[');
  require(open != std::string::npos && text.ends_with(']'), "sheet '{}': '{}' is neither a number nor COLUMN[ROW]",
          sheet.name, text);
  const std::string heading = text.substr(0, open);
  const Sheet::Row& row = sheet.row(text.substr(open + 1, text.size() - open - 2));
  for (const Sheet::Column& column : sheet.columns)
    if (heading == column.heading || heading == column.task + " " + column.heading)
      return {&row, &column, heading, mean(ours(sheet, runs, column, row)), printed(sheet, column, row)};
  fail("sheet '{}': '{}': there is no column '{}'", sheet.name, text, heading);
}

struct Sign {
  std::string text;  ///< empty: there is none
  std::size_t at = 0;
};

/// The first sign between spaces behind COLUMN[ROW], whose names may contain signs, with the place of the space before
/// the sign.
Sign sign_of(const std::string& claim) {
  const std::size_t left = claim.find(']');
  for (std::size_t at = left == std::string::npos ? 0 : left; at < claim.size(); ++at)
    for (const char* sign : {">=", "<=", ">", "<", "="})
      if (claim.compare(at, std::string_view(sign).size() + 2, fmt::format(" {} ", sign)) == 0) return {sign, at};
  return {};
}

bool holds(double left, const std::string& sign, double right) {
  const double tolerance = 1e-6 * std::max({1.0, std::abs(left), std::abs(right)});
  if (sign == ">") return left > right;
  if (sign == "<") return left < right;
  if (sign == ">=") return left >= right - tolerance;
  if (sign == "<=") return left <= right + tolerance;
  return std::abs(left - right) <= tolerance;
}

/// "BLEU of 'Yang' is above that of 'Vaswani'".
std::string words_of(const Operand& left, const std::string& sign, const Operand& right) {
  const std::string relation = sign == ">"    ? "is above"
                               : sign == "<"  ? "is below"
                               : sign == ">=" ? "is at least"
                               : sign == "<=" ? "is at most"
                                              : "equals";
  auto name = [](const Operand& one) {
    return one.row ? fmt::format("{} of '{}'", one.heading, one.row->name) : fmt::format("{:g}", one.value);
  };
  const bool is_same = left.row && right.row && left.heading == right.heading;
  return fmt::format("{} {} {}", name(left), relation, is_same ? "that of '" + right.row->name + "'" : name(right));
}

/// The verdict on a difference, of which a claim says that it is positive, or with < negative.
Verdict verdict_on(const SeededDifference& difference, const std::string& sign) {
  auto [low, high] = difference.interval();
  if (sign.starts_with('<')) std::tie(low, high) = std::pair(-high, -low);
  return low > 0 ? Verdict::holds : high < 0 ? Verdict::fails : Verdict::open;
}

bool is_speed(const Sheet::Column& column) { return column.metric == "steps/s" || column.metric == "ms/sentence"; }

/// The processors on which the runs of two rows were made, as far as their records name them.
std::set<std::string> processors(const SheetRuns& runs, const Sheet::Row& left, const Sheet::Row& right,
                                 const Sheet::Column& column) {
  std::set<std::string> names;
  for (const Sheet::Row* row : {&left, &right})
    for (const RunResult* run : runs_of(runs, row->name, column.task))
      for (const Json& start : starts_of(run->directory))
        if (const std::string name = text_at(start, "processor"); !name.empty()) names.insert(name);
  return names;
}

}  // namespace

std::vector<CheckedClaim> check_claims(const Sheet& sheet, const SheetRuns& runs) {
  std::vector<CheckedClaim> checked;
  std::map<const Sheet::Column*, SeedSpread> spreads;
  for (const Sheet::Claim& claim : sheet.claims) {
    const auto [sign, at] = sign_of(claim.text);
    require(!sign.empty(), "sheet '{}': '{}' has none of the signs >, <, >=, <=, =", sheet.name, claim.text);
    const Operand left = operand_of(sheet, runs, trimmed(claim.text.substr(0, at)));
    const Operand right = operand_of(sheet, runs, trimmed(claim.text.substr(at + sign.size() + 2)));
    CheckedClaim& one = checked.emplace_back(CheckedClaim{.claim = claim, .words = words_of(left, sign, right)});
    one.decimals = left.column ? left.column->decimals : 2;
    one.in_paper = left.paper - right.paper;
    if (std::isnan(left.value) || std::isnan(right.value)) continue;
    one.holds = holds(left.value, sign, right.value);
    one.numbers = fmt::format("{:.4g} and {:.4g}", left.value, right.value);
    one.verdict = *one.holds ? Verdict::holds : Verdict::fails;
    if (claim.is_required || sign == "=" || !left.column || left.column != right.column) continue;
    const Sheet::Column& column = *left.column;
    one.is_across_processors = is_speed(column) && processors(runs, *left.row, *right.row, column).size() > 1;
    if (one.is_across_processors) {
      one.verdict = Verdict::open;
      continue;
    }
    if (!spreads.contains(&column)) spreads[&column] = spread_of(sheet, runs, column);
    one.difference = seeded_difference(seeded_score(sheet, runs, column, *left.row),
                                       seeded_score(sheet, runs, column, *right.row), spreads[&column]);
    one.verdict = verdict_on(*one.difference, sign);
  }
  return checked;
}

std::string CheckedClaim::verdict_text() const {
  const char* text = verdict == Verdict::holds   ? "holds"
                     : verdict == Verdict::fails ? "does not hold"
                     : verdict == Verdict::open  ? "cannot tell"
                                                 : "not measured";
  if (is_across_processors) return fmt::format("{}: the runs were made on different processors", text);
  if (!difference) return text;
  if (difference_text().empty()) return fmt::format("{}: one seed, and no scores of single test examples", text);
  if (verdict == Verdict::open) {
    const auto [low, high] = difference->interval();
    const bool is_outside = in_paper < low || in_paper > high;
    return fmt::format("{}: a difference below {:.{}f} would not have been seen{}{}", text, difference->visible(),
                       decimals, is_outside ? "; the paper's lies outside the interval" : "",
                       difference->covers_seeds ? "" : "; one seed");
  }
  return difference->covers_seeds ? text : fmt::format("{}; one seed, and others may say otherwise", text);
}

std::vector<Cell> CheckedClaim::cells() const {
  return {words + (claim.is_required ? ", at any size" : ""), Cell::number(in_paper, decimals), numbers,
          difference_text(), verdict_text()};
}

std::string CheckedClaim::difference_text() const {
  const std::string interval = difference ? interval_text(*difference, decimals) : "";
  return interval.empty() ? "" : fmt::format("{:.{}f} ({})", difference->value, decimals, interval);
}

std::string untrained(const Sheet& sheet, const SheetRuns& runs, const std::string& tier) {
  const std::string& plain = sheet.rows.front().name;
  for (const Sheet::Column& column : sheet.columns) {
    const double value = mean(ours(sheet, runs, column, sheet.rows.front()));
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
