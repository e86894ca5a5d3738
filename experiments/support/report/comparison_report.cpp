#include "experiments/support/report/comparison_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/core.h>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/program/run_log.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/report/comparison_table.h"

namespace fovea {

namespace {

using Rows = std::vector<ComparedRow>;

/// Every score of a test set, with intervals: the long form of the table.
Finding::NamedTable score_table(const Rows& rows, const TestResult& test) {
  std::vector<std::string> titles;
  std::vector<std::vector<TextScore>> scores(rows.size());
  for (const ComparedRow& row : rows) titles.push_back(row.full_title());
  for (const TextScore& score : test.scores()) {
    std::vector<TextScore> of_rows;  // those that every row has
    for (const ComparedRow& row : rows)
      if (const auto pooled = pooled_score(row.finished(), test.set, score.name)) of_rows.push_back(*pooled);
    for (std::size_t r = 0; r < rows.size() && of_rows.size() == rows.size(); ++r) scores[r].push_back(of_rows[r]);
  }
  return {.name = "Each score of the test set " + test.set,
          .table = table_of_scores(score_rows(titles, scores, {})),
          .caption = fmt::format("All seeds pooled. Difference: from '{}'; its interval and the two-sided p are of a "
                                 "paired bootstrap (1000 resamples of the examples).",
                                 titles.front())};
}

/// Examples at even distances through the first test set: input, reference, and the hypothesis of each row's best
/// run.
Finding::NamedTable examples_of(const Rows& rows) {
  constexpr std::size_t most = 6, longest = 600;
  const std::vector<TestedExample>& examples = rows.front().best().tests.front().examples;
  const std::size_t count = std::min(most, examples.size());
  Table table({"", "text"});
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t k = n * examples.size() / count;
    if (n > 0) table.rule();
    table.row({fmt::format("input, sentence {}", k), shortened(examples[k].input, longest)});
    table.row({"reference", shortened(examples[k].reference, longest)});
    for (const ComparedRow& row : rows)
      table.row({row.title, shortened(row.best().tests.front().examples.at(k).hypothesis, longest)});
  }
  return {.name = "",
          .table = table,
          .caption =
              "Test examples at even distances, and the answers of each row's best run. Sentences are counted "
              "from 0, as in `analyze --sentence`. All are in examples.*.jsonl in the runs' directories."};
}

using Points = std::map<double, std::vector<double>>;  ///< x → the y of each run that has it

/// A chart with the mean curve of each row; points_of(log) are those of one run. The bands are standard deviations, if
/// every point has several values.
template <class PointsOf>
Figure mean_curves(LineChart chart, const Rows& rows, const PointsOf& points_of) {
  for (const ComparedRow& row : rows) {
    Points points;
    for (const RunResult* run : row.finished())
      for (const auto& [x, y] : points_of(log_of(*run))) points[x].push_back(y);
    if (points.empty()) continue;
    Series& series = chart.series.emplace_back(Series{.name = row.full_title()});
    bool has_deviation = true;
    for (const auto& [x, y] : points) {
      series.x.push_back(x), series.y.push_back(mean(y));
      series.deviation.push_back(sample_standard_deviation(y));
      has_deviation = has_deviation && y.size() > 1;
    }
    if (!has_deviation) series.deviation.clear();
  }
  return chart;
}

/// The learning curves of the rows that were trained, means over their seeds: the development scores and the training
/// loss (without label smoothing), which is averaged over stretches of updates.
std::vector<Figure> learning_curves(const RunGroup& group) {
  const Rows& rows = group.rows;
  std::string score;
  double updates = 0;
  bool has_log = false;
  for (const ComparedRow& row : rows)
    for (const RunResult* run : row.finished()) {
      if (run->training && score.empty()) score = run->training->score_name;
      const std::vector<Json> log = log_of(*run);
      has_log = has_log || !log.empty();
      for (const auto& [update, loss] : curve(log, "unsmoothed_loss")) updates = std::max(updates, update);
    }
  if (!has_log) return {};
  const std::string of_group =
      (group.title.empty() ? "" : " of " + shortened(group.title, 24)) + ", mean ± deviation of seeds";
  LineChart scores{.title = "Development set" + of_group, .x = {"updates"}, .y = {score}};
  LineChart losses{.title = "Training loss" + of_group, .x = {"updates"}, .y = {"nats"}};
  scores.y.least = losses.y.least = 0;
  if (!score.ends_with("perplexity")) scores.y.most = 100;
  constexpr double most_points = 25, between_lines = 10;
  const double stretch = std::max(std::ceil(updates / most_points), between_lines);
  const auto in_stretches = [&](const std::vector<Json>& log) {
    Points stretches;  // by their ends
    for (const auto& [x, y] : curve(log, "unsmoothed_loss")) stretches[std::ceil(x / stretch) * stretch].push_back(y);
    std::vector<std::pair<double, double>> means;
    for (const auto& [x, y] : stretches) means.emplace_back(x, mean(y));
    return means;
  };
  return {mean_curves(scores, rows, [&](const std::vector<Json>& log) { return curve(log, "dev." + score); }),
          mean_curves(losses, rows, in_stretches)};
}

/// The options that differ, a line for each, and those that all rows share.
std::vector<Finding::NamedTable> configuration_of(const Rows& rows) {
  const RowOptions options = options_of(rows);
  std::vector<std::string> headings{"option"};
  for (const ComparedRow& row : rows) headings.push_back(row.full_title());
  Table differing(headings), common({"option", "value"});
  for (const auto& [option, values] : options.differing) {
    std::vector<Cell> cells{"--" + option};
    cells.insert(cells.end(), values.begin(), values.end());
    differing.row(std::move(cells));
  }
  for (const auto& [option, value] : options.common.items()) common.row({option, text_at(options.common, option)});
  std::vector<Finding::NamedTable> tables{{"The options that all rows share", common}};
  if (!options.differing.empty()) tables.insert(tables.begin(), {"The options in which the rows differ", differing});
  return tables;
}

/// A line for each start of a run: when, by which version, where, and how.
Finding::NamedTable origins_of(const Rows& rows) {
  Table table({"started", "version", "machine", "processor", "threads", "command"});
  std::set<std::string> known;
  for (const ComparedRow& row : rows)
    for (const RunResult& run : row.runs)
      for (const Json& start : starts_of(run)) {
        if (!known.insert(text_of(start)).second) continue;
        auto text = [&](const char* key) { return text_at(start, key); };
        table.row({text("started"), text("version") + " " + text("commit"), text("machine"),
                   start.contains("gpu") ? text("processor") + "; " + text("gpu") : text("processor"), text("threads"),
                   text("command")});
      }
  return {"", table, "Times are UTC. A run that was resumed has several starts."};
}

std::vector<Finding> sections_of(const RunGroup& group, const ComparisonReport& report) {
  Rows rows = group.rows;
  std::erase_if(rows, [](const ComparedRow& row) { return row.finished().empty(); });
  if (rows.empty()) return {};
  Finding scores{.title = "Scores"};
  for (const TestResult& test : rows.front().best().tests) scores.tables.push_back(score_table(rows, test));
  std::vector<Finding> sections{scores};
  if (!report.trials.empty())
    sections.push_back({.title = "Search",
                        .tables = {{"", trials_table(report.trials), "Every trial; the best of each row is above."}}});
  const TestedExample& example = rows.front().best().tests.front().examples.front();
  if (!example.hypothesis.empty() || !example.input.empty())  // not a language model
    sections.push_back({.title = "Examples", .tables = {examples_of(rows)}});
  std::vector<PicturedRun> pictured;
  for (const ComparedRow& row : rows)
    pictured.push_back({row.full_title(), fmt::format("Seed {}.", row.best().seed), row.best().directory});
  if (std::optional<Finding> attention = attention_section(pictured)) sections.push_back(std::move(*attention));
  sections.push_back({.title = "Configuration", .tables = configuration_of(group.rows)});
  sections.push_back({.title = "How the runs were made", .tables = {origins_of(group.rows)}});
  return sections;
}

}  // namespace

Finding finding_of(const ComparisonReport& report) {
  Finding finding{.title = report.title};
  for (const RunGroup& group : report.groups) {
    finding.tables.push_back(
        {.name = group.title, .table = comparison_table(group.rows), .caption = comparison_caption(group.rows)});
    for (Figure& curves : learning_curves(group)) finding.figures.push_back(std::move(curves));
  }
  finding.sections_of_page = [report] {
    std::vector<Finding> all;
    for (const RunGroup& group : report.groups) {
      if (report.groups.size() > 1) all.push_back({.title = group.title});
      for (Finding& section : sections_of(group, report)) all.push_back(std::move(section));
    }
    return all;
  };
  return finding;
}

}  // namespace fovea
