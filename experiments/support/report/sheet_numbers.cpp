// The numbers of a sheet's table: what a run has in a column, and what the difference of two rows is judged by.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/report/comparison_table.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/report/sheet.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/suggestion.h"

namespace fovea {

namespace {

constexpr std::string_view mean_prefix = "mean:";

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

/// The numbers of the runs that have one, times the factor.
std::vector<double> values_of(const SeedRuns& runs, const std::string& metric, double factor) {
  std::vector<double> values;
  for (const RunResult* run : runs)
    if (const double value = measured(*run, metric); !std::isnan(value)) values.push_back(factor * value);
  return values;
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
                           std::ranges::all_of(scores.metrics, [&](const SummedMetric& one) {
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
  for (const SeedRuns& seeds : alike.rows)
    rows.push_back(seeded_score(values_of(seeds, column.metric, column.factor), seeds, column));
  return found->second = seed_spread(rows);
}

}  // namespace

std::vector<std::string> metrics_of(const std::string& metric) {
  if (!metric.starts_with(mean_prefix)) return {metric};
  std::vector<std::string> metrics;
  for (std::string_view one : split_columns(metric, ','))
    metrics.push_back(trimmed(one.starts_with(mean_prefix) ? one.substr(mean_prefix.size()) : one));
  return metrics;
}

const SeedRuns& runs_of(const SheetRuns& all, const std::string& row, const std::string& task) {
  static const SeedRuns none;
  auto found = all.find({row, task});
  return found == all.end() ? none : found->second;
}

double measured(const RunResult& run, const std::string& metric) {
  if (metric.starts_with(mean_prefix)) {
    std::vector<double> values;
    for (const std::string& one : metrics_of(metric)) values.push_back(measured(run, one));
    return mean(values);
  }
  if (metric == "parameters") return double(run.parameters);
  if (metric == "steps/s" || metric.starts_with("dev ")) return of_training(run, metric);
  if (run.tests.empty()) return std::nan("");
  const TestResult& test = run.tests.front();
  constexpr std::string_view within_prefix = "within ";
  if (metric.starts_with(within_prefix)) return within(test, metric.substr(within_prefix.size()));
  if (metric == "source length") return test.source_length.value_or(std::nan(""));
  if (metric == "ms/sentence")
    return test.decoding ? 1000 * test.decoding->cpu / double(test.examples.size()) : std::nan("");
  const double value = value_of(test, metric);
  // A model without windows scores the whole source at every step.
  return std::isnan(value) && metric == "window" ? test.source_length.value_or(value) : value;
}

double printed(const Sheet& sheet, const Sheet::Column& column, const Sheet::Row& row) {
  const auto is_printed = [](const Sheet::Column& one) { return one.is_printed; };
  const auto place = std::count_if(sheet.columns.data(), &column, is_printed);
  const bool has_one = column.is_printed && place < std::ssize(row.printed);
  return has_one ? row.printed[std::size_t(place)] : std::nan("");
}

std::string metric_of(const Sheet::Column& column, const Sheet::Row& row) {
  constexpr std::string_view placeholder = "$part";
  std::string metric = column.metric;
  if (const std::size_t at = metric.find(placeholder); at != std::string::npos)
    metric.replace(at, placeholder.size(), row.part);
  return metric;
}

std::vector<double> our_values(const SheetRuns& runs, const Sheet::Column& column, const Sheet::Row& row) {
  return values_of(runs_of(runs, row.name, column.task), metric_of(column, row), column.factor);
}

SeededScore seeded_score(const SheetRuns& runs, const Sheet::Column& column, const Sheet::Row& row) {
  return seeded_score(our_values(runs, column, row), runs_of(runs, row.name, column.task), column);
}

SeedSpread spread_of(const Sheet& sheet, const SheetRuns& runs, const Sheet::Column& column) {
  if (const auto alike = runs.alike.find(column.task); alike != runs.alike.end())
    if (const SeedSpread& spread = spread_of(*alike->second, column); spread.within_rows.degrees > 0) return spread;
  std::vector<SeededScore> rows;
  for (const Sheet::Row& row : sheet.rows) rows.push_back(seeded_score(runs, column, row));
  return seed_spread(rows);
}

SheetRuns runs_of(const Sheet& sheet, const std::vector<RunResult>& runs, Rates rates) {
  SheetRuns found;
  std::map<std::string, std::string> examples;  // by task: those of its first run
  std::vector<std::string> names;               // of all rows
  for (const Sheet::Task& task : sheet.tasks)
    for (const Sheet::Row& row : sheet.rows) {
      names.push_back(name_of(sheet, task, row));
      const std::string name = name_of(sheet, task, row, rates);
      for (const RunResult& run : runs) {
        if (!run.failure.empty() || std::ranges::count(run.made_for, name) == 0) continue;
        const std::string key = key_of_examples(run);
        if (examples.try_emplace(task.name, key).first->second != key) continue;
        SeedRuns& of_row = found[{row.name, task.name}];
        const auto is_in_place = [&](const RunResult* one) { return one->seed == run.seed; };
        if (of_row.empty() || (agree_but_for_seed(*of_row.front(), run) && std::ranges::none_of(of_row, is_in_place)))
          of_row.push_back(&run);
      }
    }
  for (auto& [key, of_row] : found) std::ranges::sort(of_row, [](auto* a, auto* b) { return a->seed < b->seed; });
  for (const RunResult& run : runs)
    for (const std::string& name : run.made_for) {
      if (!name.starts_with(sheet.name + ":") && !name.starts_with(sheet.name + ",")) continue;
      const bool is_known = std::ranges::any_of(names, [&](const std::string& row) {
        return name == row || name.starts_with(row + " (");  // a searched rate, or a trial of the search
      });
      require(is_known, "{}: was made for '{}', which is no row of the sheet{}", run.directory.string(), name,
              did_you_mean(name, names));
    }
  return found;
}

std::string interval_text(const SeededDifference& difference, int decimals) {
  const auto [low, high] = difference.interval();
  return std::isnan(low) ? "" : fmt::format("{:.{}f} to {:.{}f}", low, decimals, high, decimals);
}

}  // namespace fovea
