#include "experiments/support/report/classification_results.h"

#include <algorithm>
#include <map>
#include <set>

#include "experiments/support/metrics/statistics.h"

namespace fovea {

namespace {

/// Accuracy within one group of examples, of each run, in percent.
std::vector<double> accuracies_in_group(const ComparedClassifier& compared, const std::vector<Example>& examples,
                                        int group) {
  std::vector<double> accuracies;
  for (const FinishedRun& run : compared.runs) {
    double right = 0, all = 0;
    for (std::size_t k = 0; k < examples.size(); ++k) {
      if (examples[k].group != group) continue;
      right += run.outcome.correct[k] == '1';
      all += 1;
    }
    accuracies.push_back(100 * right / all);
  }
  return accuracies;
}

}  // namespace

std::vector<double> ComparedClassifier::accuracies() const {
  std::vector<double> accuracies;
  for (const FinishedRun& run : runs) accuracies.push_back(run.outcome.accuracy());
  return accuracies;
}

double ComparedClassifier::steps_per_second() const {
  std::vector<double> speeds;
  for (const FinishedRun& run : runs) speeds.push_back(run.outcome.steps_per_second);
  return mean(speeds);
}

std::vector<double> ComparedClassifier::scores_by_example() const {
  std::vector<double> scores(runs.front().outcome.correct.size());
  for (const FinishedRun& run : runs) {
    for (std::size_t k = 0; k < scores.size(); ++k)
      scores[k] += (run.outcome.correct[k] == '1' ? 100.0 : 0.0) / static_cast<double>(runs.size());
  }
  return scores;
}

const FinishedRun& ComparedClassifier::best() const {
  return *std::max_element(runs.begin(), runs.end(), [](const FinishedRun& a, const FinishedRun& b) {
    return a.outcome.dev_accuracy < b.outcome.dev_accuracy;
  });
}

const ComparedClassifier& best_of(const std::vector<ComparedClassifier>& compared) {
  return *std::max_element(compared.begin(), compared.end(), [](const auto& a, const auto& b) {
    return a.best().outcome.dev_accuracy < b.best().outcome.dev_accuracy;
  });
}

Table comparison_table(const std::vector<ComparedClassifier>& compared, const ClassificationData& data) {
  std::set<int> groups;
  for (const Example& example : data.test) {
    if (example.group >= 0) groups.insert(example.group);
  }
  std::vector<std::string> headings{"model", "accuracy %"};
  for (int group : groups) headings.push_back(std::to_string(group));
  if (!groups.empty()) headings.back() += " " + data.group;
  headings.insert(headings.end(), {"parameters", "steps/s"});
  bool compares = compared.size() > 1;
  if (compares) headings.insert(headings.end(), {"ratio", "p"});
  Table table(headings);
  const ComparedClassifier& first = compared.front();
  std::vector<double> baseline = first.scores_by_example();
  for (const ComparedClassifier& row : compared) {
    std::vector<Cell> cells{row.title, Cell::mean_of(row.accuracies(), 2)};
    for (int group : groups) cells.push_back(Cell::mean_of(accuracies_in_group(row, data.test, group), 1));
    cells.emplace_back(row.runs.front().outcome.parameters);
    cells.push_back(Cell::number(row.steps_per_second(), 1));
    if (compares) {
      bool is_first = &row == &first;
      auto p = [&] { return paired_bootstrap(baseline, row.scores_by_example()).p_two_sided; };
      cells.push_back(Cell::number(row.steps_per_second() / first.steps_per_second(), 2));
      cells.push_back(is_first ? Cell() : Cell::number(p(), 3));
    }
    table.row(cells);
  }
  return table;
}

std::string comparison_caption(const std::vector<ComparedClassifier>& compared, const ClassificationData& data) {
  std::size_t seeds = compared.front().runs.size();
  std::string caption =
      fmt::format("Accuracy on {} test examples{}.", data.test.size(),
                  seeds == 1 ? ", one seed" : fmt::format(", mean ± standard deviation over {} seeds", seeds));
  if (compared.size() > 1)
    caption += " ratio: steps/s against the first row. p: two-sided paired bootstrap against the first row.";
  return caption;
}

}  // namespace fovea
