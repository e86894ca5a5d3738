#include "experiments/support/report/comparison_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <tuple>

namespace fovea {

namespace {

using Runs = std::vector<const RunResult*>;

/// The score on the development set, negated if smaller is better.
double dev_score(const RunResult& run) {
  return run.training ? (run.training->higher_is_better ? 1 : -1) * run.training->best_score : 0;
}

/// The mean over the row's runs; -inf if no run is finished.
double dev_score(const ComparedRow& row) {
  std::vector<double> scores;
  for (const RunResult* run : row.finished())
    if (run->training) scores.push_back(dev_score(*run));
  return scores.empty() ? -std::numeric_limits<double>::infinity() : mean(scores);
}

/// The row that the others are compared with: the first one, or the first finished one if all its runs failed.
const ComparedRow& compared_with(const std::vector<ComparedRow>& rows) {
  const auto first = std::ranges::find_if(rows, [](const ComparedRow& row) { return !row.finished().empty(); });
  return first == rows.end() ? rows.front() : *first;
}

/// The first finished run, whose scores determine the columns; without one, a failed run.
const RunResult& example_of(const std::vector<ComparedRow>& rows) {
  const ComparedRow& row = compared_with(rows);
  return row.finished().empty() ? row.runs.front() : *row.finished().front();
}

using Value = std::function<double(const RunResult&)>;

/// Updates per second of the clock; NaN for a run without training.
double steps_per_second(const RunResult& run) { return run.training ? run.training->steps_per_second() : std::nan(""); }

/// Updates per processor second; on a GPU, which the processor only waits for, per second of the clock.
double speed_of(const RunResult& run) {
  const bool is_on_gpu = run.configuration.is_object() && run.configuration.value("device", "cpu") != "cpu";
  return is_on_gpu || !run.training ? steps_per_second(run) : run.training->steps_per_cpu_second();
}

double sentences_per_second(const RunResult& run) {
  const TestResult& test = run.tests.front();
  return test.decoding ? double(test.examples.size()) / test.decoding->wall : std::nan("");
}

/// The values of the row's finished runs.
std::vector<double> values_of(const ComparedRow& row, const Value& value) {
  std::vector<double> values;
  for (const RunResult* run : row.finished()) values.push_back(value(*run));
  return values;
}

/// A column for each score or measurement that things_of(test) names for any run, set by set and in order of
/// appearance; headings have the name of the set if there are several.
template <class Things>
void add_columns(std::vector<Column<ComparedRow>>& columns, const std::vector<ComparedRow>& rows,
                 const Things& things_of) {
  const std::vector<TestResult>& tests = example_of(rows).tests;
  for (std::size_t set = 0; set < tests.size(); ++set)
    for (const ComparedRow& row : rows)
      for (const RunResult* run : row.finished())
        for (const auto& one : things_of(run->tests.at(set))) {
          const std::string heading = tests.size() > 1 ? tests[set].set + " " + one.name : one.name;
          if (std::ranges::any_of(columns, [&](auto& old) { return old.heading == heading; })) continue;
          columns.push_back({heading, [set, name = one.name, decimals = one.decimals](const ComparedRow& each) {
                               const auto value = [&](auto& other) { return value_of(other.tests.at(set), name); };
                               return Cell::mean_of(values_of(each, value), decimals);
                             }});
        }
}

}  // namespace

std::string ComparedRow::full_title() const { return trial.empty() ? title : title + " " + trial; }

std::vector<const RunResult*> ComparedRow::finished() const {
  std::vector<const RunResult*> all;
  for (const RunResult& run : runs)
    if (run.failure.empty()) all.push_back(&run);
  return all;
}

const RunResult& ComparedRow::best() const {
  const Runs all = finished();
  return **std::ranges::max_element(all, {}, [](const RunResult* run) { return dev_score(*run); });
}

bool ComparedRow::is_better_than(const ComparedRow& other) const {
  const std::size_t failed = runs.size() - finished().size(), others = other.runs.size() - other.finished().size();
  return failed != others ? failed < others : dev_score(*this) > dev_score(other);
}

const ComparedRow& best_of(const std::vector<ComparedRow>& rows) {
  const auto worth = [](const ComparedRow& row) {
    return row.finished().empty() ? -std::numeric_limits<double>::infinity() : dev_score(row.best());
  };
  return *std::ranges::max_element(rows, {}, worth);
}

bool have_best(const std::vector<ComparedRow>& rows) {
  std::set<std::string> names;
  for (const ComparedRow& row : rows)
    for (const RunResult* run : row.finished())
      if (run->training) names.insert(run->training->score_name);
  return names.size() < 2 && !(best_of(rows).best().training && dev_score(best_of(rows).best()) == 0);
}

bool all_failed(const std::vector<ComparedRow>& rows) {
  return std::ranges::all_of(rows, [](const ComparedRow& row) { return row.finished().empty(); });
}

std::vector<ComparedRow> without_lost_trials(const std::vector<ComparedRow>& rows) {
  const auto search_of = [](const ComparedRow& row) {
    return std::tuple(!row.trial.empty(), row.title, row.runs.front().directory.parent_path());
  };
  std::vector<ComparedRow> kept;
  for (const ComparedRow& row : rows) {
    const auto rival = std::ranges::find(kept, search_of(row), search_of);
    if (row.trial.empty() || rival == kept.end())
      kept.push_back(row);
    else if (row.is_better_than(*rival))
      *rival = row;
  }
  return kept;
}

const TextScore* score_of(const RunResult& run, const std::string& set, const std::string& metric) {
  for (const TestResult& test : run.tests)
    for (const TextScore& score : test.scores())
      if (test.set == set && score.name == metric) return &score;
  return nullptr;
}

double value_of(const TestResult& test, const std::string& name) {
  for (const TextScore& score : test.scores())
    if (score.name == name) return score.metric.value();
  for (const Measurement& one : test.measurements)
    if (one.name == name) return one.value;
  return std::nan("");
}

std::optional<TextScore> pooled_score(const std::vector<const RunResult*>& runs, const std::string& set,
                                      const std::string& metric) {
  std::optional<TextScore> first;
  std::vector<SummedMetric> metrics;
  for (const RunResult* run : runs) {
    const TextScore* score = score_of(*run, set, metric);
    if (!score) return {};
    if (!first) first = *score;
    if (score->metric.statistics.size() != first->metric.statistics.size()) return {};
    metrics.push_back(score->metric);
  }
  if (first) first->metric = pooled(metrics);
  return first;
}

double p_of(const std::vector<const RunResult*>& baseline, const std::vector<const RunResult*>& row,
            const std::string& set, const std::string& metric) {
  const std::optional<TextScore> first = pooled_score(baseline, set, metric), other = pooled_score(row, set, metric);
  if (!first || !other || first->metric.statistics.size() != other->metric.statistics.size()) return std::nan("");
  return paired_bootstrap(first->metric, other->metric).p;
}

Table comparison_table(const std::vector<ComparedRow>& rows) {
  const ComparedRow& first = compared_with(rows);
  const bool compares = rows.size() > 1;
  std::vector<Column<ComparedRow>> columns{{"model", [](const ComparedRow& row) { return Cell(row.full_title()); }}};
  // A column with the means of the rows, unless no run has such a number.
  const auto add_means = [&](const char* heading, int decimals, const Value& value) {
    const auto has_mean = [&](const ComparedRow& row) { return !std::isnan(mean(values_of(row, value))); };
    if (std::ranges::any_of(rows, has_mean))
      columns.push_back({heading, [=](auto& row) { return Cell::number(mean(values_of(row, value)), decimals); }});
  };
  add_columns(
      columns, rows, [](const TestResult& test) -> const auto& { return test.scores(); });
  if (compares)
    columns.push_back({"p", [&, tests = &example_of(rows).tests](const ComparedRow& row) {
                         if (&row == &first || tests->empty()) return Cell();
                         const TestResult& test = tests->front();
                         return Cell::number(
                             p_of(first.finished(), row.finished(), test.set, test.scores().front().name), 3);
                       }});
  add_columns(
      columns, rows, [](const TestResult& test) -> const auto& { return test.measurements; });
  columns.push_back({"parameters", [](const ComparedRow& row) {
                       const Runs finished = row.finished();
                       return finished.empty() ? Cell() : Cell(finished.front()->parameters);
                     }});
  add_means("steps/s", 2, steps_per_second);
  const double of_first = mean(values_of(first, speed_of));
  if (compares) add_means("relative", 2, [=](const RunResult& run) { return speed_of(run) / of_first; });
  add_means("sentences/s", 1, sentences_per_second);
  return table_of(columns, rows);
}

std::string comparison_caption(const std::vector<ComparedRow>& rows) {
  const RunResult& example = example_of(rows);
  std::string caption;
  for (const TestResult& test : example.tests)
    caption += fmt::format("{}{}: {} examples", caption.empty() ? "" : "; ", test.set, test.examples.size());
  const std::size_t seeds = rows.front().runs.size();
  const bool are_alike = std::ranges::all_of(rows, [&](auto& row) { return row.runs.size() == seeds; });
  if (!are_alike)
    caption += ", mean ± standard deviation over each row's seeds.";
  else
    caption += seeds == 1 ? ", one seed." : fmt::format(", mean ± standard deviation over {} seeds.", seeds);
  const ComparedRow& first = compared_with(rows);
  if (rows.size() > 1)
    caption += fmt::format(
        " p: {} against '{}'{}, two-sided paired bootstrap (1000 resamples of the examples), all seeds pooled.",
        example.tests.empty() ? "the first score" : example.tests.front().scores().front().name, first.title,
        &first == &rows.front() ? "" : fmt::format(" (all runs of '{}' failed)", rows.front().title));
  if (rows.size() > 1 && example.training)
    caption += fmt::format(
        " steps/s: by the clock. relative: updates per second of processor time, over those of '{}'.", first.title);
  for (const ComparedRow& row : rows)
    for (const RunResult& run : row.runs)
      if (!run.failure.empty()) caption += fmt::format("\n{} seed {}: {}", row.title, run.seed, run.failure);
  return caption + "\n";
}

std::string interval_text(Interval interval, int decimals) {
  if (std::isnan(interval.low) || std::isnan(interval.high)) return "";
  return fmt::format("{} to {}", rounded_text(interval.low, decimals), rounded_text(interval.high, decimals));
}

Table trials_table(const std::vector<ComparedRow>& trials) {
  const RunResult& example = example_of(trials);
  Table table({"row", "trial", "development " + (example.training ? example.training->score_name : "score")});
  for (const ComparedRow& trial : trials)
    table.row({trial.title, trial.trial,
               Cell::mean_of(values_of(trial, [](const RunResult& run) { return run.training->best_score; }), 3)});
  return table;
}

namespace {

/// In the row's decimals; empty without the interval.
Cell interval_cell(const Json& row, const char* low, const char* high) {
  return row.contains(low) ? interval_text({row[low], row[high]}, row["decimals"]) : Cell();
}

Cell number_cell(const Json& row, const char* key, int decimals) {
  return row.contains(key) ? Cell::number(row[key], decimals) : Cell();
}

bool has_several(const std::vector<Json>& rows) {
  return std::ranges::any_of(rows, [](const Json& row) { return row.contains("difference"); });
}

}  // namespace

std::vector<Json> score_rows(const std::vector<std::string>& systems, const std::vector<std::vector<TextScore>>& scores,
                             const BootstrapOptions& options) {
  std::vector<Json> rows;
  for (std::size_t k = 0; k < scores.front().size(); ++k) {
    const SummedMetric& first = scores.front()[k].metric;
    for (std::size_t s = 0; s < systems.size(); ++s) {
      const auto& [name, metric, decimals, line] = scores[s][k];
      Json& row = rows.emplace_back(
          Json{{"metric", name}, {"system", systems[s]}, {"value", metric.value()}, {"decimals", decimals}});
      if (options.resamples > 0) {
        const Interval interval = bootstrap_interval(metric, options);
        row.update({{"low", interval.low}, {"high", interval.high}});
      }
      if (s > 0) row["difference"] = metric.value() - first.value();
      if (s > 0 && options.resamples > 0) {
        const PairedBootstrap test = paired_bootstrap(first, metric, options);
        row.update({{"difference_low", test.interval.low},
                    {"difference_high", test.interval.high},
                    {"p", test.p},
                    {"p_koehn", test.p_koehn}});
      }
      if (!line.empty()) row["line"] = line;
    }
  }
  return rows;
}

Table table_of_scores(const std::vector<Json>& rows) {
  const bool several = has_several(rows);
  Table table(several ? std::vector<std::string>{"metric", "system", "value", "difference", "its 95 % interval", "p"}
                      : std::vector<std::string>{"metric", "value", "95 % interval"});
  for (const Json& row : rows) {
    const int decimals = row["decimals"];
    const std::string metric = row["metric"], system = row["system"];
    const Cell value = Cell::number(row["value"], decimals);
    if (several && !row.contains("difference") && &row != &rows.front()) table.rule();
    several ? table.row({metric, system, value, number_cell(row, "difference", decimals),
                         interval_cell(row, "difference_low", "difference_high"), number_cell(row, "p", 3)})
            : table.row({metric, value, interval_cell(row, "low", "high")});
  }
  return table;
}

std::string score_table(const std::vector<Json>& rows) {
  std::string text = table_of_scores(rows).text();
  for (const Json& row : rows)
    if (row.contains("line"))
      text +=
          (has_several(rows) ? row["system"].get<std::string>() + ": " : "") + row["line"].get<std::string>() + "\n";
  return text;
}

}  // namespace fovea
