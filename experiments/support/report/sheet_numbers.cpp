// The numbers of a sheet's table: what a run has in a column, and what the difference of two rows is judged by.
#include "experiments/support/report/sheet_numbers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "experiments/support/metrics/lead.h"
#include "experiments/support/metrics/statistics.h"
#include "experiments/support/report/comparison_table.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

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

/// The values of runs in a column; with the scores that they are made of, if it is a score.
SeededScore seeded_score(std::vector<double> values, const SeedRuns& runs, const Sheet::Column& column) {
  SeededScore scores{.values = std::move(values), .factor = column.factor};
  if (scores.values.size() == runs.size())
    for (const RunResult* run : runs) scores.seeds.push_back(run->seed);
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

/// The spread in a column, computed once.
const SeedSpread& spread_of(const AlikeRuns& alike, const Sheet::Column& column) {
  const auto [found, is_new] = alike.spreads.try_emplace({column.metric, column.factor});
  if (!is_new) return found->second;
  std::vector<SeededScore> rows;
  for (const SeedRuns& seeds : alike.rows) {
    std::vector<double> values;
    for (const RunResult* run : seeds)
      if (const double value = measured(*run, column.metric); !std::isnan(value))
        values.push_back(column.factor * value);
    rows.push_back(seeded_score(std::move(values), seeds, column));
  }
  return found->second = seed_spread(rows);
}

}  // namespace

const SeedRuns& runs_of(const SheetRuns& all, const std::string& row, const std::string& task) {
  static const SeedRuns none;
  auto found = all.find({row, task});
  return found == all.end() ? none : found->second;
}

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

double printed(const Sheet& sheet, const Sheet::Column& column, const Sheet::Row& row) {
  const auto is_printed = [](const Sheet::Column& one) { return one.is_printed; };
  const auto place = std::count_if(sheet.columns.data(), &column, is_printed);
  const bool has_one = column.is_printed && place < std::ssize(row.printed);
  return has_one ? row.printed[static_cast<std::size_t>(place)] : std::nan("");
}

std::string metric_of(const Sheet::Column& column, const Sheet::Row& row) {
  constexpr std::string_view placeholder = "$part";
  std::string metric = column.metric;
  if (const std::size_t at = metric.find(placeholder); at != std::string::npos)
    metric.replace(at, placeholder.size(), row.part);
  return metric;
}

std::vector<double> our_values(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column,
                               const Sheet::Row& row) {
  const std::string metric = metric_of(column, row);
  std::vector<double> values;
  auto add = [&](const RunResult& run) {
    const double value = measured(run, metric);
    if (!std::isnan(value)) values.push_back(column.factor * value);
  };
  if (row.lead == 0)
    for (const RunResult* run : runs_of(runs, row.name, column.task)) add(*run);
  else if (const SeedRuns& plain = runs_of(runs, sheet.rows.front().name, column.task); !plain.empty())
    add(lead_of(*plain.front(), row.lead));  // the same for all seeds
  return values;
}

SeededScore seeded_score(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column,
                         const Sheet::Row& row) {
  return seeded_score(our_values(sheet, runs, column, row), runs_of(runs, row.name, column.task), column);
}

SeedSpread spread_of(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column) {
  if (const auto alike = runs.alike.find(column.task); alike != runs.alike.end())
    if (const SeedSpread& spread = spread_of(*alike->second, column); spread.within_rows.degrees > 0) return spread;
  std::vector<SeededScore> rows;
  for (const Sheet::Row& row : sheet.rows) rows.push_back(seeded_score(sheet, runs, column, row));
  return seed_spread(rows);
}

std::string interval_text(const SeededDifference& difference, int decimals) {
  const auto [low, high] = difference.interval();
  return std::isnan(low) ? "" : fmt::format("{:.{}f} to {:.{}f}", low, decimals, high, decimals);
}

}  // namespace fovea
