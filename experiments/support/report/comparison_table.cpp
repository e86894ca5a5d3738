#include "experiments/support/report/comparison_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "experiments/support/metrics/statistics.h"

namespace fovea {

namespace {

using Runs = std::vector<const RunResult*>;

/// The mean score on the development set, negated if smaller is better; -inf if no run is finished.
double dev_score(const ComparedRow& row) {
  std::vector<double> scores;
  for (const RunResult* run : row.finished())
    if (run->training) scores.push_back((run->training->higher_is_better ? 1 : -1) * run->training->best_score);
  return scores.empty() ? -std::numeric_limits<double>::infinity() : mean(scores);
}

double dev_score(const RunResult& run) {
  return run.training ? (run.training->higher_is_better ? 1 : -1) * run.training->best_score : 0;
}

/// A column with the mean over each row's runs. value() is NaN for a run without it.
struct Column {
  std::string heading;
  int decimals;
  std::function<double(const RunResult&)> value;
};

/// The first finished run, whose scores determine the columns.
const RunResult& example_of(const std::vector<ComparedRow>& rows) {
  for (const ComparedRow& row : rows)
    if (!row.finished().empty()) return *row.finished().front();
  return rows.front().runs.front();
}

/// The row that the others are compared with: number `baseline`, or the first finished one if all runs of that failed.
const ComparedRow& compared_with(const std::vector<ComparedRow>& rows, std::size_t baseline) {
  if (!rows.at(baseline).finished().empty() || all_failed(rows)) return rows.at(baseline);
  return *std::find_if(rows.begin(), rows.end(), [](const ComparedRow& row) { return !row.finished().empty(); });
}

/// The heading of a score: "BLEU", or "news BLEU" if there are several test sets.
std::string heading_of(const RunResult& example, std::size_t set, const std::string& name) {
  return example.tests.size() > 1 ? example.tests[set].set + " " + name : name;
}

/// Adds the column unless there is one with its heading.
void add(std::vector<Column>& columns, Column column) {
  if (std::none_of(columns.begin(), columns.end(), [&](const Column& one) { return one.heading == column.heading; }))
    columns.push_back(std::move(column));
}

/// Calls visitor(set, test) for each test set of each finished run, set by set.
template <class Visitor>
void for_tests(const std::vector<ComparedRow>& rows, std::size_t sets, const Visitor& visitor) {
  for (std::size_t set = 0; set < sets; ++set)
    for (const ComparedRow& row : rows)
      for (const RunResult* run : row.finished()) visitor(set, run->tests.at(set));
}

/// Every score of any run's test sets, in order of appearance.
std::vector<Column> score_columns(const std::vector<ComparedRow>& rows, const RunResult& example) {
  std::vector<Column> columns;
  for_tests(rows, example.tests.size(), [&](std::size_t set, const TestResult& test) {
    for (const TextScore& score : test.scores())
      add(columns, {heading_of(example, set, score.name), score.decimals,
                    [of_set = example.tests[set].set, name = score.name](const RunResult& other) {
                      const TextScore* found = score_of(other, of_set, name);
                      return found ? found->metric.value() : std::nan("");
                    }});
  });
  return columns;
}

/// Every measurement of any run's test sets, in order of appearance.
std::vector<Column> measurement_columns(const std::vector<ComparedRow>& rows, const RunResult& example) {
  std::vector<Column> columns;
  for_tests(rows, example.tests.size(), [&](std::size_t set, const TestResult& test) {
    for (const Measurement& one : test.measurements)
      add(columns, {heading_of(example, set, one.name), one.decimals, [set, name = one.name](const RunResult& other) {
                      return measured_value(other.tests.at(set), name);
                    }});
  });
  return columns;
}

double sentences_per_second(const RunResult& run) {
  const TestResult& test = run.tests.front();
  if (!test.decoding) return std::nan("");
  return static_cast<double>(test.examples.size()) / test.decoding->wall;
}

/// The values of the row's finished runs.
std::vector<double> values_of(const ComparedRow& row, const std::function<double(const RunResult&)>& value) {
  std::vector<double> values;
  for (const RunResult* run : row.finished()) values.push_back(value(*run));
  return values;
}

/// Updates per second of the clock; NaN for a run without training.
double steps_per_second(const RunResult& run) { return run.training ? run.training->steps_per_second() : std::nan(""); }

/// Updates per processor second; on a GPU, which the processor only waits for, per second of the clock.
double speed_of(const RunResult& run) {
  const bool is_on_gpu = run.configuration.is_object() && run.configuration.value("device", "cpu") != "cpu";
  return is_on_gpu || !run.training ? steps_per_second(run) : run.training->steps_per_cpu_second();
}

/// The mean over the row's finished runs.
double mean_of(const ComparedRow& row, const std::function<double(const RunResult&)>& value) {
  return mean(values_of(row, value));
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
  return **std::max_element(all.begin(), all.end(),
                            [](const RunResult* a, const RunResult* b) { return dev_score(*a) < dev_score(*b); });
}

bool ComparedRow::is_better_than(const ComparedRow& other) const {
  const std::size_t failed = runs.size() - finished().size(), others = other.runs.size() - other.finished().size();
  return failed != others ? failed < others : dev_score(*this) > dev_score(other);
}

const ComparedRow& best_of(const std::vector<ComparedRow>& rows) {
  const ComparedRow* best = nullptr;
  for (const ComparedRow& row : rows)
    if (!row.finished().empty() && (!best || dev_score(row.best()) > dev_score(best->best()))) best = &row;
  return *best;
}

bool have_best(const std::vector<ComparedRow>& rows) {
  std::set<std::string> names;
  for (const ComparedRow& row : rows)
    for (const RunResult* run : row.finished())
      if (run->training) names.insert(run->training->score_name);
  return names.size() < 2 && !(best_of(rows).best().training && dev_score(best_of(rows).best()) == 0);
}

bool all_failed(const std::vector<ComparedRow>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const ComparedRow& row) { return row.finished().empty(); });
}

const TextScore* score_of(const RunResult& run, const std::string& set, const std::string& metric) {
  for (const TestResult& test : run.tests)
    for (const TextScore& score : test.scores())
      if (test.set == set && score.name == metric) return &score;
  return nullptr;
}

double measured_value(const TestResult& test, const std::string& name) {
  for (const Measurement& one : test.measurements)
    if (one.name == name) return one.value;
  return std::numeric_limits<double>::quiet_NaN();
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
  return paired_bootstrap(first->metric, other->metric).p_two_sided;
}

Table comparison_table(const std::vector<ComparedRow>& rows, std::size_t baseline) {
  const RunResult& example = example_of(rows);
  auto any = [&](auto holds) {
    return std::any_of(rows.begin(), rows.end(), [&](const ComparedRow& row) {
      const Runs finished = row.finished();
      return std::any_of(finished.begin(), finished.end(), [&](const RunResult* run) { return holds(*run); });
    });
  };
  const bool compares = rows.size() > 1, trains = any([](const RunResult&run) { return run.training.has_value(); });
  const bool decodes = any([](const RunResult& run) { return run.tests.front().decoding.has_value(); });
  const std::vector<Column> scores = score_columns(rows, example), others = measurement_columns(rows, example);
  std::vector<std::string> headings{"model"};
  for (const Column& column : scores) headings.push_back(column.heading);
  if (compares) headings.emplace_back("p");
  for (const Column& column : others) headings.push_back(column.heading);
  headings.emplace_back("parameters");
  if (trains) headings.emplace_back("steps/s");
  if (trains && compares) headings.emplace_back("relative");
  if (decodes) headings.emplace_back("sentences/s");
  Table table(headings);
  const ComparedRow& first = compared_with(rows, baseline);
  for (const ComparedRow& row : rows) {
    std::vector<Cell> cells{row.full_title()};
    auto add = [&](const Column& column) {
      cells.push_back(Cell::mean_of(values_of(row, column.value), column.decimals));
    };
    std::for_each(scores.begin(), scores.end(), add);
    const bool is_tested = &row != &first && !example.tests.empty();
    if (compares)
      cells.push_back(is_tested ? Cell::number(p_of(first.finished(), row.finished(), example.tests.front().set,
                                                    example.tests.front().scores().front().name),
                                               3)
                                : Cell());
    std::for_each(others.begin(), others.end(), add);
    const Runs finished = row.finished();
    cells.push_back(finished.empty() ? Cell() : Cell(finished.front()->parameters));
    if (trains) cells.push_back(Cell::number(mean_of(row, steps_per_second), 2));
    if (trains && compares) cells.push_back(Cell::number(mean_of(row, speed_of) / mean_of(first, speed_of), 2));
    if (decodes) cells.push_back(Cell::number(mean_of(row, sentences_per_second), 1));
    table.row(std::move(cells));
  }
  return table;
}

std::string comparison_caption(const std::vector<ComparedRow>& rows, std::size_t baseline) {
  const RunResult& example = example_of(rows);
  std::string caption;
  for (const TestResult& test : example.tests)
    caption += fmt::format("{}{}: {} examples", caption.empty() ? "" : "; ", test.set, test.examples.size());
  const std::size_t seeds = rows.front().runs.size();
  const bool are_alike = std::all_of(rows.begin(), rows.end(), [&](auto& row) { return row.runs.size() == seeds; });
  if (!are_alike)
    caption += ", mean ± standard deviation over each row's seeds.";
  else
    caption += seeds == 1 ? ", one seed." : fmt::format(", mean ± standard deviation over {} seeds.", seeds);
  const ComparedRow& first = compared_with(rows, baseline);
  if (rows.size() > 1)
    caption += fmt::format(
        " p: {} against '{}'{}, two-sided paired bootstrap (1000 resamples of the examples), all seeds pooled.",
        example.tests.empty() ? "the first score" : example.tests.front().scores().front().name, first.title,
        &first == &rows[baseline] ? "" : fmt::format(" (all runs of '{}' failed)", rows[baseline].title));
  if (rows.size() > 1 && example.training)
    caption += fmt::format(
        " steps/s: by the clock. relative: updates per second of processor time, over those of '{}'; other programs "
        "on the machine hardly change it.",
        first.title);
  for (const ComparedRow& row : rows)
    for (const RunResult& run : row.runs)
      if (!run.failure.empty()) caption += fmt::format("\n{} seed {}: {}", row.title, run.seed, run.failure);
  return caption + "\n";
}

Table trials_table(const std::vector<ComparedRow>& trials) {
  const RunResult& example = example_of(trials);
  Table table({"row", "trial", "development " + (example.training ? example.training->score_name : "score")});
  for (const ComparedRow& trial : trials)
    table.row({trial.title, trial.trial,
               Cell::mean_of(values_of(trial, [](const RunResult& run) { return run.training->best_score; }), 3)});
  return table;
}

}  // namespace fovea
