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

double measurement(const TestResult& test, const std::string& name) {
  for (const Measurement& one : test.measurements)
    if (one.name == name) return one.value;
  return std::numeric_limits<double>::quiet_NaN();
}

/// Every measurement of any run, in order of appearance.
std::vector<Measurement> measurements(const std::vector<ComparedRow>& rows, std::size_t set) {
  std::vector<Measurement> all;
  for (const ComparedRow& row : rows)
    for (const RunResult* run : row.finished())
      for (const Measurement& one : run->tests.at(set).measurements)
        if (std::none_of(all.begin(), all.end(), [&](const Measurement& other) { return other.name == one.name; }))
          all.push_back(one);
  return all;
}

/// The heading of a score: "BLEU", or "news BLEU" if there are several test sets.
std::string heading_of(const RunResult& example, std::size_t set, const std::string& name) {
  return example.tests.size() > 1 ? example.tests[set].set + " " + name : name;
}

std::vector<Column> score_columns(const RunResult& example) {
  std::vector<Column> columns;
  for (std::size_t set = 0; set < example.tests.size(); ++set) {
    const std::vector<TextScore> scores = example.tests[set].scores();
    for (std::size_t k = 0; k < scores.size(); ++k)
      columns.push_back({heading_of(example, set, scores[k].name), scores[k].decimals,
                         [set, k](const RunResult& run) { return run.tests.at(set).scores().at(k).metric.value(); }});
  }
  return columns;
}

std::vector<Column> measurement_columns(const std::vector<ComparedRow>& rows, const RunResult& example) {
  std::vector<Column> columns;
  for (std::size_t set = 0; set < example.tests.size(); ++set)
    for (const Measurement& one : measurements(rows, set))
      columns.push_back(
          {heading_of(example, set, one.name), one.decimals,
           [set, name = one.name](const RunResult& run) { return measurement(run.tests.at(set), name); }});
  return columns;
}

double sentences_per_second(const RunResult& run) {
  const TestResult& test = run.tests.front();
  return static_cast<double>(test.examples.size()) / test.decoding->wall;
}

/// The values of the row's finished runs.
std::vector<double> values_of(const ComparedRow& row, const std::function<double(const RunResult&)>& value) {
  std::vector<double> values;
  for (const RunResult* run : row.finished()) values.push_back(value(*run));
  return values;
}

Cell p_against(const ComparedRow& first, const ComparedRow& row) {
  if (first.finished().empty() || row.finished().empty()) return {};
  const SummedMetric baseline = pooled_score(first, 0, 0).metric, challenger = pooled_score(row, 0, 0).metric;
  return Cell::number(paired_bootstrap(baseline, challenger).p_two_sided, 3);
}

double speed_of(const ComparedRow& row) {
  return mean(values_of(row, [](const RunResult& run) { return run.training->steps_per_second(); }));
}

}  // namespace

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

bool have_one_dev_score(const std::vector<ComparedRow>& rows) {
  std::set<std::string> names;
  for (const ComparedRow& row : rows)
    for (const RunResult* run : row.finished())
      if (run->training) names.insert(run->training->score_name);
  return names.size() < 2;
}

bool all_failed(const std::vector<ComparedRow>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const ComparedRow& row) { return row.finished().empty(); });
}

TextScore pooled_score(const ComparedRow& row, std::size_t set, std::size_t k) {
  const Runs all = row.finished();
  TextScore pooled = all.front()->tests.at(set).scores().at(k);
  for (std::size_t n = 1; n < all.size(); ++n) {
    const SummedMetric metric = all[n]->tests.at(set).scores().at(k).metric;
    for (std::size_t i = 0; i < metric.statistics.size(); ++i) pooled.metric.statistics[i] += metric.statistics[i];
  }
  for (double& statistic : pooled.metric.statistics) statistic /= static_cast<double>(all.size());
  return pooled;
}

Table comparison_table(const std::vector<ComparedRow>& rows) {
  const RunResult& example = example_of(rows);
  const bool compares = rows.size() > 1, trains = example.training.has_value();
  const bool decodes = !example.tests.empty() && example.tests.front().decoding.has_value();
  const std::vector<Column> scores = score_columns(example), others = measurement_columns(rows, example);
  std::vector<std::string> headings{"model"};
  for (const Column& column : scores) headings.push_back(column.heading);
  if (compares) headings.emplace_back("p");
  for (const Column& column : others) headings.push_back(column.heading);
  headings.emplace_back("parameters");
  if (trains) headings.emplace_back("steps/s");
  if (trains && compares) headings.emplace_back("relative");
  if (decodes) headings.emplace_back("sentences/s");
  Table table(headings);
  for (const ComparedRow& row : rows) {
    std::vector<Cell> cells{row.trial.empty() ? row.title : row.title + " " + row.trial};
    auto add = [&](const Column& column) {
      cells.push_back(Cell::mean_of(values_of(row, column.value), column.decimals));
    };
    std::for_each(scores.begin(), scores.end(), add);
    if (compares) cells.push_back(&row == &rows.front() ? Cell() : p_against(rows.front(), row));
    std::for_each(others.begin(), others.end(), add);
    const Runs finished = row.finished();
    cells.push_back(finished.empty() ? Cell() : Cell(finished.front()->parameters));
    if (trains) cells.push_back(Cell::number(speed_of(row), 2));
    if (trains && compares) cells.push_back(Cell::number(speed_of(row) / speed_of(rows.front()), 2));
    if (decodes) cells.push_back(Cell::number(mean(values_of(row, sentences_per_second)), 1));
    table.row(std::move(cells));
  }
  return table;
}

std::string comparison_caption(const std::vector<ComparedRow>& rows) {
  const RunResult& example = example_of(rows);
  std::string caption;
  for (const TestResult& test : example.tests)
    caption += fmt::format("{}{}: {} examples", caption.empty() ? "" : "; ", test.set, test.examples.size());
  const std::size_t seeds = rows.front().runs.size();
  caption += seeds == 1 ? ", one seed." : fmt::format(", mean ± standard deviation over {} seeds.", seeds);
  if (rows.size() > 1)
    caption += " p: two-sided paired bootstrap of the first score against the first row, all seeds pooled.";
  if (rows.size() > 1 && example.training) caption += " relative: steps/s over those of the first row.";
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
