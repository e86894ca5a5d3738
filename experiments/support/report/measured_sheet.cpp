// The numbers that runs have in a sheet's table, the table with the paper's numbers beside ours, and the paper's
// statements about its numbers, judged by ours.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/report/sheet.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/suggestion.h"

namespace fovea {

// ---- The runs of a sheet, and their numbers

SheetRuns runs_of(const Sheet& sheet, const std::vector<RunResult>& runs) {
  SheetRuns found;
  std::map<std::string, std::string> examples;  // by task: those of its first run
  std::vector<std::string> names;               // of all rows
  for (const Sheet::Task& task : sheet.tasks)
    for (const Sheet::Row& row : sheet.rows) {
      const std::string& name = names.emplace_back(name_of(sheet, task, row));
      for (const RunResult& run : runs) {
        if (!run.failure.empty() || std::ranges::count(run.made_for, name) == 0) continue;
        const std::string key = key_of_examples(run);
        if (examples.try_emplace(task.name, key).first->second != key) continue;
        SeedRuns& of_row = found[{row.name, task.name}];
        const auto is_in_place = [&](const RunResult* one) { return one->seed == run.seed; };
        const bool is_alike = of_row.empty() || agree_but_for_seed(*of_row.front(), run);
        if (is_alike && std::ranges::none_of(of_row, is_in_place)) of_row.push_back(&run);
      }
    }
  for (auto& [key, of_row] : found) std::ranges::sort(of_row, [](auto* a, auto* b) { return a->seed < b->seed; });
  for (const RunResult& run : runs)
    for (const std::string& name : run.made_for) {
      if (!name.starts_with(sheet.name + ":") && !name.starts_with(sheet.name + ",")) continue;
      require(std::ranges::count(names, name) > 0, "{}: was made for '{}', which is no row of the sheet{}",
              run.directory.string(), name, did_you_mean(name, names));
    }
  return found;
}

namespace {

constexpr std::string_view mean_prefix = "mean:";
constexpr std::string_view third_prefixes[] = {"shortest third:", "middle third:", "longest third:"};

/// 0 of "shortest third: BLEU", 2 of "longest third: BLEU"; empty for a metric of all examples.
std::optional<std::size_t> third_of(const std::string& metric) {
  const auto found =
      std::ranges::find_if(third_prefixes, [&](std::string_view prefix) { return metric.starts_with(prefix); });
  if (found == std::end(third_prefixes)) return {};
  return std::size_t(found - std::begin(third_prefixes));
}

/// The metric of one third of the examples, which are sorted by length.
SummedMetric of_third(const SummedMetric& metric, const std::vector<std::size_t>& lengths, std::size_t third) {
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t example) { return lengths[example]; });
  SummedMetric part = metric;
  part.statistics.clear();
  for (std::size_t k = third * order.size() / 3; k < (third + 1) * order.size() / 3; ++k) {
    const auto numbers = metric.statistics.begin() + std::ptrdiff_t(order[k] * metric.width);
    part.statistics.insert(part.statistics.end(), numbers, numbers + std::ptrdiff_t(metric.width));
  }
  return part;
}

/// A score of the first test set, or of a third of its examples; empty if the run does not have it.
std::optional<SummedMetric> score_metric(const RunResult& run, const std::string& metric) {
  if (run.tests.empty() || metric.starts_with(mean_prefix)) return {};
  const TestResult& test = run.tests.front();
  const TextScore* score = score_of(run, test.set, metrics_of(metric).front());
  const std::optional<std::size_t> third = third_of(metric);
  if (!score || !third) return score ? std::optional(score->metric) : std::nullopt;
  const std::vector<std::size_t> lengths = test.lengths();
  return lengths.empty() ? std::nullopt : std::optional(of_third(score->metric, lengths, *third));
}

/// The percentage of an attention within a distance: "2: encoder.last.attention".
double within(const TestResult& test, const std::string& metric) {
  const std::size_t colon = metric.find(": "), first_dot = metric.find('.'), last_dot = metric.rfind('.');
  const bool has_parts = colon < first_dot && first_dot < last_dot && last_dot != std::string::npos;
  const std::string layer = has_parts ? metric.substr(first_dot + 1, last_dot - first_dot - 1) : "";
  require(layer == "first" || layer == "middle" || layer == "last",
          "'within {}': expected within DISTANCE: STACK.LAYER.ATTENTION, whose LAYER is first, middle or last", metric);
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

}  // namespace

std::vector<std::string> metrics_of(const std::string& metric) {
  if (const auto third = third_of(metric)) return {trimmed(metric.substr(third_prefixes[*third].size()))};
  if (!metric.starts_with(mean_prefix)) return {metric};
  std::vector<std::string> metrics;
  for (const std::string_view one : split_columns(std::string_view(metric).substr(mean_prefix.size()), ','))
    metrics.push_back(trimmed(one));
  return metrics;
}

double measured(const RunResult& run, const std::string& metric) {
  if (metric.starts_with(mean_prefix)) {
    std::vector<double> values;
    for (const std::string& one : metrics_of(metric)) values.push_back(measured(run, one));
    return mean(values);
  }
  if (metric == "parameters") return double(run.parameters);
  if (run.training && metric == "steps/s") return run.training->steps_per_cpu_second();
  if (run.training && metric == "dev " + run.training->score_name) return run.training->best_score;
  if (run.tests.empty()) return std::nan("");
  const TestResult& test = run.tests.front();
  if (third_of(metric)) {
    const std::optional<SummedMetric> part = score_metric(run, metric);
    return part ? part->value() : std::nan("");
  }
  constexpr std::string_view within_prefix = "within ";
  if (metric.starts_with(within_prefix)) return within(test, metric.substr(within_prefix.size()));
  if (metric == "source length") return test.source_length.value_or(std::nan(""));
  if (metric == "ms/sentence")
    return test.decoding ? 1000 * test.decoding->cpu / double(test.examples.size()) : std::nan("");
  const double value = value_of(test, metric);
  // A model without windows scores the whole source at every step.
  return std::isnan(value) && metric == "window" ? test.source_length.value_or(value) : value;
}

namespace {

/// The values of runs, times the factor; with the scores that they are made of, if it is a score of the same examples.
SeededScore seeded_score(const SeedRuns& runs, const std::string& metric, double factor) {
  SeededScore scores{.values = {}, .factor = factor};
  for (const RunResult* run : runs) {
    if (const double value = measured(*run, metric); !std::isnan(value)) scores.values.push_back(factor * value);
    if (std::optional<SummedMetric> score = score_metric(*run, metric)) scores.metrics.push_back(std::move(*score));
  }
  if (scores.values.size() == runs.size())
    for (const RunResult* run : runs) scores.seeds.push_back(run->seed);
  const bool is_one_test = scores.metrics.size() == scores.values.size() &&
                           std::ranges::all_of(scores.metrics, [&](const SummedMetric& one) {
                             return one.examples() == scores.metrics.front().examples();
                           });
  if (!is_one_test) scores.metrics.clear();
  return scores;
}

/// The data of a run for readers: "generated", or the path without the directory of the public data, of other absolute
/// paths the last two parts.
std::string data_name(const RunResult& run) {
  constexpr std::string_view public_data = "{data}/";
  const std::string data = text_at(run.configuration, "data");
  if (data.starts_with("generated")) return "generated";
  if (data.starts_with(public_data)) return data.substr(public_data.size());
  const std::filesystem::path path = data;
  return path.is_absolute() ? path.parent_path().filename() / path.filename() : path;
}

/// A sheet with the runs of its rows.
struct MeasuredSheet {
  const Sheet& sheet;
  const SheetRuns& all;

  const Sheet::Row& plain() const { return sheet.rows.front(); }
  const SeedRuns& runs(const Sheet::Column& column, const Sheet::Row& row) const {
    static const SeedRuns none;
    const auto found = all.find({row.name, column.task});
    return found == all.end() ? none : found->second;
  }
  /// The metric of a column in a row, whose part takes the place of $part.
  static std::string metric(const Sheet::Column& column, const Sheet::Row& row) {
    return substituted(column.metric, {{"part", row.part}});
  }
  /// The paper's number; NaN if it gives none.
  double printed(const Sheet::Column& column, const Sheet::Row& row) const {
    const auto place =
        std::size_t(std::count_if(sheet.columns.data(), &column, [](auto& one) { return one.is_printed; }));
    return column.is_printed && place < row.printed.size() ? row.printed[place] : std::nan("");
  }
  SeededScore score(const Sheet::Column& column, const Sheet::Row& row) const {
    return seeded_score(runs(column, row), metric(column, row), column.factor);
  }
  /// Ours in the unit of the column, a value for each run of the row that has one.
  std::vector<double> ours(const Sheet::Column& column, const Sheet::Row& row) const {
    return score(column, row).values;
  }

  /// How much seeds differ in a column: of all runs that are trained alike or, if these do not have the column, of the
  /// sheet's rows.
  SeedSpread spread(const Sheet::Column& column) const {
    std::vector<SeededScore> rows;
    if (const auto alike = all.alike.find(column.task); alike != all.alike.end()) {
      const auto [known, is_new] = alike->second->spreads.try_emplace({column.metric, column.factor});
      if (is_new) {
        for (const SeedRuns& seeds : alike->second->rows)
          rows.push_back(seeded_score(seeds, column.metric, column.factor));
        known->second = seed_spread(rows);
      }
      if (known->second.within_rows.degrees > 0) return known->second;
      rows.clear();
    }
    for (const Sheet::Row& row : sheet.rows) rows.push_back(score(column, row));
    return seed_spread(rows);
  }

  /// How trainings ended: their mean gain in the last fifth, and the standard deviation of the difference between two
  /// seeds, both of the score that selects the models. Without a second seed that deviation is not known, and is 0.
  struct Ending {
    double gain = std::nan(""), between_seeds = 0;
    bool is_trained = false;

    bool has_converged() const { return !is_trained || gain <= between_seeds; }  // a NaN is no convergence
  };
  Ending ending(const Sheet::Column& column, const Sheet::Row& row) const {
    const SeedRuns& trained = runs(column, row.model.empty() ? row : sheet.row(row.model));
    std::vector<double> gains;
    for (const RunResult* run : trained) gains.push_back(gain_of_last_fifth(*run));
    const bool is_trained = std::ranges::any_of(trained, [](auto* run) { return run->training.has_value(); });
    if (std::isnan(mean(gains))) return {.is_trained = is_trained};
    Sheet::Column selects = column;
    selects.metric = "dev " + trained.front()->training->score_name;
    selects.factor = 1;
    return {mean(gains), std::sqrt(2 * spread(selects).within_rows.variance), is_trained};
  }

  bool has_runs(const std::string& task) const {
    return std::ranges::any_of(all, [&](const auto& row) { return row.first.second == task; });
  }
  bool has_ours(const Sheet::Column& column) const {
    return std::ranges::any_of(sheet.rows, [&](const Sheet::Row& row) { return !ours(column, row).empty(); });
  }
  /// Whether the column has tests against the first row: the first score of each task that its runs have.
  bool is_tested(const Sheet::Column& column) const {
    const auto is_score = [&](const Sheet::Column& one) {
      return one.task == column.task && !score(one, plain()).metrics.empty();
    };
    const auto first = std::ranges::find_if(sheet.columns, is_score);
    return first != sheet.columns.end() && &*first == &column;
  }
  /// The data of all runs of a task.
  std::string data(const std::string& task) const {
    std::set<std::string> names;
    for (const auto& [key, of_row] : all)
      for (const RunResult* run : of_row)
        if (key.second == task) names.insert(data_name(*run));
    return fmt::format("{}", fmt::join(names, ", "));
  }
  /// The name of a column's task, if the sheet has several.
  std::string prefix(const Sheet::Column& column) const { return sheet.tasks.size() > 1 ? column.task + " " : ""; }
};

}  // namespace

// ---- Statements

namespace {

using Side = CheckedClaim::Side;

/// "BLEU[Enc (AW)]", or a number.
Side side_of(const MeasuredSheet& measured, const std::string& text) {
  const std::string& sheet = measured.sheet.name;
  if (const std::optional<double> value = number<double>(text)) return {.value = *value, .in_paper = *value};
  const std::size_t open = text.find('[');
  require(open != std::string::npos && text.ends_with(']'), "sheet '{}': '{}' is neither a number nor COLUMN[ROW]",
          sheet, text);
  const std::string heading = text.substr(0, open);
  const Sheet::Row& row = measured.sheet.row(text.substr(open + 1, text.size() - open - 2));
  for (const Sheet::Column& column : measured.sheet.columns)
    if (heading == column.heading || heading == column.task + " " + column.heading)
      return {.metric = measured.metric(column, row),
              .runs = measured.runs(column, row),
              .value = mean(measured.ours(column, row)),
              .in_paper = measured.printed(column, row),
              .name = fmt::format("{} of '{}'", heading, row.name),
              .row = &row,
              .column = &column};
  fail("sheet '{}': '{}': there is no column '{}'", sheet, text, heading);
}

/// A comparison in a claim, and its words in a sentence. Numbers that differ by less than `tolerance` count as equal.
struct Relation {
  const char *sign, *words;
  bool (*holds)(double left, double right, double tolerance);
};
constexpr Relation relations[] = {
    {">=", "is at least", [](double left, double right, double tolerance) { return left >= right - tolerance; }},
    {"<=", "is at most", [](double left, double right, double tolerance) { return left <= right + tolerance; }},
    {">", "is above", [](double left, double right, double) { return left > right; }},
    {"<", "is below", [](double left, double right, double) { return left < right; }},
    {"=", "equals", [](double left, double right, double tolerance) { return std::abs(left - right) <= tolerance; }}};

/// The first sign between spaces behind COLUMN[ROW], whose names may contain signs, and the place of the space before
/// the sign. Throws Error if there is none.
std::pair<const Relation*, std::size_t> relation_of(const Sheet& sheet, const std::string& claim) {
  const std::size_t left = claim.find(']');
  for (std::size_t at = left == std::string::npos ? 0 : left; at < claim.size(); ++at)
    for (const Relation& one : relations)
      if (claim.compare(at, std::string_view(one.sign).size() + 2, fmt::format(" {} ", one.sign)) == 0)
        return {&one, at};
  fail("sheet '{}': '{}' has none of the signs >, <, >=, <=, =", sheet.name, claim);
}

/// "BLEU of 'Yang' is above that of 'Vaswani'".
std::string words_of(const Side& left, const Relation& relation, const Side& right) {
  const auto name = [](const Side& one) { return one.row ? one.name : fmt::format("{:g}", one.value); };
  const bool is_same = left.row && right.row && left.column == right.column;
  return fmt::format("{} {} {}", name(left), relation.words,
                     is_same ? "that of '" + right.row->name + "'" : name(right));
}

/// The verdict on a difference, of which a claim says that it is positive, or with < negative.
Verdict verdict_on(const SeededDifference& difference, const std::string& sign) {
  auto [low, high] = difference.interval();
  if (sign.starts_with('<')) std::tie(low, high) = std::pair(-high, -low);
  return low > 0 ? Verdict::holds : high < 0 ? Verdict::fails : Verdict::open;
}

}  // namespace

std::vector<CheckedClaim> check_claims(const Sheet& sheet, const SheetRuns& runs) {
  const MeasuredSheet measured{sheet, runs};
  std::vector<CheckedClaim> checked;
  std::map<const Sheet::Column*, SeedSpread> spreads;
  for (const Sheet::Claim& claim : sheet.claims) {
    const auto [relation, at] = relation_of(sheet, claim.text);
    const std::string sign = relation->sign;
    CheckedClaim& one = checked.emplace_back(CheckedClaim{.claim = claim, .sign = sign});
    const Side left = one.left = side_of(measured, trimmed(claim.text.substr(0, at)));
    const Side right = one.right = side_of(measured, trimmed(claim.text.substr(at + sign.size() + 2)));
    one.words = claim.says.empty() ? words_of(left, *relation, right) : claim.says;
    one.decimals = left.column ? left.column->decimals : 2;
    if (std::isnan(left.value) || std::isnan(right.value)) continue;
    const double tolerance = 1e-6 * std::max({1.0, std::abs(left.value), std::abs(right.value)});
    one.verdict = relation->holds(left.value, right.value, tolerance) ? Verdict::holds : Verdict::fails;
    if (claim.is_required || sign == "=" || !left.column || left.column != right.column) continue;
    const Sheet::Column& column = *left.column;
    if (column.metric == "steps/s" || column.metric == "ms/sentence") {
      one.verdict = Verdict::open;
      one.why_open = "other work changes speeds";
      continue;
    }
    if (!spreads.contains(&column)) spreads[&column] = measured.spread(column);
    one.difference =
        seeded_difference(measured.score(column, *left.row), measured.score(column, *right.row), spreads[&column]);
    if (std::isnan(one.difference->standard_error)) continue;
    one.verdict = verdict_on(*one.difference, sign);
    for (const Sheet::Row* row : {left.row, right.row})
      if (!measured.ending(column, *row).has_converged()) {
        one.verdict = Verdict::open;
        one.why_open = "not converged";
      }
  }
  return checked;
}

namespace {

const char* word_of(Verdict verdict) {
  return verdict == Verdict::holds   ? "holds"
         : verdict == Verdict::fails ? "does not hold"
         : verdict == Verdict::open  ? "open"
                                     : "not measured";
}

}  // namespace

std::string CheckedClaim::verdict_text() const {
  std::string text = word_of(verdict);
  if (!why_open.empty()) return text + ": " + why_open;
  if (!difference) return text;
  if (std::isnan(difference->standard_error)) return text + " in one training";
  if (verdict == Verdict::open) {
    const auto [low, high] = difference->interval();
    text += fmt::format(": {} would show", rounded_text(difference->visible(), decimals));
    if (in_paper() < low || in_paper() > high) text += "; the paper's is outside";
  }
  return text + (difference->covers_seeds ? "" : "; one seed");
}

std::string CheckedClaim::ours_text() const {
  if (std::isnan(left.value) || std::isnan(right.value)) return "";
  const std::string interval = difference ? interval_text(difference->interval(), decimals) : "";
  return interval.empty() ? fmt::format("{:.4g} and {:.4g}", left.value, right.value)
                          : fmt::format("{} ({})", rounded_text(difference->value, decimals), interval);
}

std::vector<Cell> CheckedClaim::cells() const {
  return {words + (claim.is_required ? ", at any size" : ""), Cell::number(in_paper(), decimals), ours_text(),
          verdict_text()};
}

// ---- Tables

namespace {

/// Ranks of columns (Table). Our numbers have rank 0: a terminal shows them as long as any.
enum Rank { paper_beside_ours = 1, compared, paper_alone };

/// Appends a column of the sheet as up to five of the table: the paper's number, ours, p and the interval of the
/// difference from the first row, and the gain of the last fifth of the training.
void add_columns(std::vector<Column<Sheet::Row>>& columns, const MeasuredSheet& measured, const Sheet::Column& column) {
  const bool has_tasks = measured.sheet.tasks.size() > 1;  // they have the paper's names, so that ours need their own
  const std::string of_task = measured.prefix(column), name = of_task + column.heading;
  const bool has_ours = measured.has_ours(column);
  if (column.is_printed)
    columns.push_back({name + ", paper",
                       [&](auto& row) { return Cell::number(measured.printed(column, row), column.decimals); },
                       has_ours ? paper_beside_ours : paper_alone});
  if (!has_ours) return;
  const bool is_constant = column.metric == "parameters";  // the same for every seed
  columns.push_back({name + ", ours" + (has_tasks ? fmt::format(" ({})", measured.data(column.task)) : ""),
                     [&, is_constant](auto& row) {
                       const std::vector<double> values = measured.ours(column, row);
                       return is_constant ? Cell::number(mean(values), column.decimals)
                                          : Cell::mean_of(values, column.decimals);
                     }});
  if (!measured.is_tested(column)) return;
  const SeedRuns& first = measured.runs(column, measured.plain());
  /// A column that compares the rows that have runs with the first one.
  const auto compare = [&](const char* heading, const auto& cell) {
    columns.push_back({of_task + heading,
                       [&, cell](const Sheet::Row& row) {
                         const bool is_compared =
                             row.name != measured.plain().name && !measured.runs(column, row).empty();
                         return is_compared ? cell(row) : Cell();
                       },
                       compared});
  };
  compare("p", [&](const Sheet::Row& row) {
    return Cell::number(p_of(first, measured.runs(column, row), first.front()->tests.front().set, column.metric), 3);
  });
  compare("difference", [&, spread = measured.spread(column)](const Sheet::Row& row) {
    const SeededDifference difference =
        seeded_difference(measured.score(column, row), measured.score(column, measured.plain()), spread);
    return Cell(interval_text(difference.interval(), column.decimals));
  });
  const auto has_gain = [&](const Sheet::Row& row) { return !std::isnan(measured.ending(column, row).gain); };
  if (std::ranges::any_of(measured.sheet.rows, has_gain))
    columns.push_back({of_task + "last gain",
                       [&](const Sheet::Row& row) {
                         const MeasuredSheet::Ending ending = measured.ending(column, row);
                         const char* mark = ending.has_converged() ? "" : " †";
                         return std::isnan(ending.gain) ? Cell() : Cell(fmt::format("{:.2f}{}", ending.gain, mark));
                       },
                       compared});
}

}  // namespace

Table sheet_table(const Sheet& sheet, const SheetRuns& runs) {
  const MeasuredSheet measured{sheet, runs};
  std::vector<Column<Sheet::Row>> columns{
      {"model", [](const Sheet::Row& row) { return Cell(row.is_cited ? row.name + " (cited)" : row.name); }}};
  for (const Sheet::Column& column : sheet.columns) add_columns(columns, measured, column);
  std::vector<Sheet::Row> rows = sheet.rows;
  std::erase_if(rows, [&](const Sheet::Row& row) {
    return !row.is_cited && std::ranges::none_of(sheet.columns, [&](const Sheet::Column& column) {
      return !std::isnan(measured.printed(column, row)) || !measured.ours(column, row).empty();
    });
  });
  return table_of(columns, rows);
}

namespace {

/// "+0.64 ± 0.95 (2)†", of the first row "38.43 (3)".
Cell difference_cell(const MeasuredSheet& measured, const Sheet::Column& column, const Sheet::Row& row,
                     const SeedSpread& spread) {
  const SeededScore ours = measured.score(column, row), plain = measured.score(column, measured.plain());
  if (ours.values.empty() || plain.values.empty()) return {};
  std::string text = rounded_text(mean(ours.values), column.decimals);
  if (row.name != measured.plain().name) {
    const SeededDifference difference = seeded_difference(ours, plain, spread);
    text = rounded_text(difference.value, column.decimals);
    if (difference.value > 0 && text.find_first_of("123456789") != text.npos) text.insert(0, "+");
    if (const double reach = difference.interval().high - difference.value; !std::isnan(reach))
      text += fmt::format(" ± {}", rounded_text(reach, column.decimals));
  }
  const char* mark = measured.ending(column, row).has_converged() ? "" : "†";
  return fmt::format("{} ({}){}", text, ours.values.size(), mark);
}

}  // namespace

Table difference_table(const Sheet& sheet, const SheetRuns& runs) {
  const MeasuredSheet measured{sheet, runs};
  std::vector<Column<Sheet::Row>> columns{{"method", [](const Sheet::Row& row) { return Cell(row.name); }}};
  for (const Sheet::Column& column : sheet.columns)
    if (measured.has_ours(column))
      columns.push_back({measured.prefix(column) + column.heading,
                         [&measured, &column, spread = measured.spread(column)](const Sheet::Row& row) {
                           return difference_cell(measured, column, row, spread);
                         }});
  std::vector<Sheet::Row> rows = sheet.rows;
  std::erase_if(rows, [&](const Sheet::Row& row) {
    return std::ranges::all_of(sheet.columns, [&](auto& column) { return measured.ours(column, row).empty(); });
  });
  return table_of(columns, rows);
}

std::vector<Finding::NamedTable> tables_of(const Sheet& sheet, const SheetRuns& runs) {
  std::vector<Finding::NamedTable> tables{{sheet.title, sheet_table(sheet, runs), sheet_caption(sheet, runs)}};
  if (sheet.claims.empty()) return tables;
  Table table({"statement", "difference, paper", "ours (95 % interval)", "verdict"});
  for (const CheckedClaim& one : check_claims(sheet, runs)) {
    std::vector<Cell> cells = one.cells();
    if (!one.claim.of.empty()) cells[0] = one.claim.of + ": " + one.words;
    table.row(std::move(cells));
  }
  tables.push_back({.name = "Statements about the table", .table = table});
  return tables;
}

std::string sheet_caption(const Sheet& sheet, const SheetRuns& runs) {
  const MeasuredSheet measured{sheet, runs};
  std::string caption = sheet.about;
  for (const Sheet::Task& task : sheet.tasks)
    if (const std::string ours = measured.data(task.name); !ours.empty() && !sheet.compares_methods)  // not of a paper
      caption += fmt::format(" Data{}: {} here, {} in the paper.", sheet.tasks.size() > 1 ? " of " + task.name : "",
                             ours, task.data);
  if (runs.empty()) return caption + " None of our runs belongs to a row.";
  std::vector<std::string> missing;  // scores that no run has
  for (const Sheet::Column& column : sheet.columns)
    if (!column.metric.empty() && measured.has_runs(column.task) && !measured.has_ours(column))
      missing.push_back(measured.prefix(column) + column.heading);
  if (!missing.empty()) caption += fmt::format(" None of our runs has {}.", alternatives(missing));
  const bool has_one_seed = std::ranges::all_of(runs, [](const auto& row) { return row.second.size() == 1; });
  caption += fmt::format(" Where the data differ, compare the order of the rows, not the values. Ours: {}",
                         has_one_seed ? "one seed." : "mean ± standard deviation over seeds.");
  const bool has_tests = std::ranges::any_of(sheet.columns, [&](auto& column) { return measured.is_tested(column); });
  if (!has_tests) return caption;
  return caption +
         fmt::format(
             " p: against '{}', two-sided paired bootstrap over the test examples, all seeds pooled, which "
             "says nothing about other seeds; the papers' tests may be others. Difference: from the same "
             "row, the 95 % interval, which also covers other seeds if any row has several. Last gain: of the "
             "score that selects the models, in the last fifth of the training; †: more than two seeds "
             "differ, so that the row had not converged, and is not judged.",
             measured.plain().name);
}

std::string untrained(const Sheet& sheet, const SheetRuns& runs, const std::string& tier) {
  const MeasuredSheet measured{sheet, runs};
  const std::string& plain = measured.plain().name;
  for (const Sheet::Column& column : sheet.columns) {
    const auto least = column.trained.find(tier);
    if (least == column.trained.end() || !measured.has_runs(column.task)) continue;
    const double value = mean(measured.ours(column, measured.plain()));
    if (std::isnan(value)) return fmt::format("{} has no {}", plain, column.heading);
    const bool higher_is_better = !column.metric.ends_with("perplexity");
    if (higher_is_better ? value < least->second : value > least->second)
      return fmt::format("{} {} of {} is {} {}", column.heading, rounded_text(value, column.decimals), plain,
                         higher_is_better ? "below" : "above", least->second);
  }
  return "";
}

}  // namespace fovea
