#include "experiments/support/report/comparison_report.h"

#include <algorithm>
#include <cmath>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/report/html.h"
#include "experiments/support/report/learning_curves.h"
#include "experiments/support/report/paper_numbers.h"
#include "experiments/support/report/score_report.h"

namespace fovea {

namespace {

using Rows = std::vector<ComparedRow>;

Rows finished_rows(const Rows& rows) {
  Rows finished;
  for (const ComparedRow& row : rows)
    if (!row.finished().empty()) finished.push_back(row);
  return finished;
}

/// Adds the scores of one test set with intervals and tests, pooled over seeds.
void add_scores(Report& report, const Rows& rows, std::size_t set) {
  std::vector<std::string> titles;
  std::vector<std::vector<TextScore>> scores;
  for (const ComparedRow& row : rows) {
    titles.push_back(row.title);
    scores.emplace_back();
    const std::size_t count = row.finished().front()->tests.at(set).scores().size();
    for (std::size_t k = 0; k < count; ++k) scores.back().push_back(pooled_score(row, set, k));
  }
  report.add(table_of(score_rows(titles, scores, {})),
             fmt::format("Each score of the test set {}, all seeds pooled, with a bootstrap of 1000 resamples of its "
                         "examples. p (Koehn): one-sided, how often a resample is not better than the first row's; p "
                         "(Moses): two-sided, as in sacreBLEU. ↑: p (Koehn) < .05, ⇑: < .01.",
                         rows.front().finished().front()->tests.at(set).set));
}

/// The mean over the row's seeds of the first score whose name begins with `metric`; NaN if there is none.
double our_score(const ComparedRow& row, const std::string& metric) {
  std::vector<double> values;
  for (const RunResult* run : row.finished())
    for (const TextScore& score : run->tests.front().scores())
      if (score.name.starts_with(metric)) {
        values.push_back(score.metric.value());
        break;
      }
  return mean(values);
}

void add_papers(Report& report, const std::string& program, const Rows& rows) {
  std::vector<Json> configurations;
  for (const ComparedRow& row : rows) configurations.push_back(load_json(row.best().directory / "config.json"));
  const std::vector<PaperTable> papers = paper_tables(program, configurations);
  if (papers.empty()) return;
  report.section("Beside the papers");
  report.text(
      "What the papers report for models with these attentions. Their data, sizes and training differ from those here: "
      "compare the order of the rows and the distances between them, not the values.");
  auto cell = [](double value) { return Cell::number(value, value < 1 ? 3 : 2); };
  for (const PaperTable& paper : papers) {
    std::vector<std::string> headings{"the paper's name", "model", "ours: " + paper.metric};
    for (const std::string& column : paper.columns) headings.push_back("paper: " + column);
    Table table(headings);
    for (std::size_t m = 0; m < paper.rows.size(); ++m) {
      if (!paper.rows[m]) continue;
      std::vector<Cell> cells{paper.rows[m]->name, rows[m].title, cell(our_score(rows[m], paper.metric))};
      for (double value : paper.rows[m]->values) cells.push_back(cell(value));
      table.row(std::move(cells));
    }
    report.add(table, paper.caption);
  }
}

/// Adds examples at even distances through the first test set: input, reference, and the hypothesis of each row's best
/// run.
void add_examples(Report& report, const Rows& rows) {
  constexpr std::size_t most = 6, longest = 600;
  const std::vector<TestedExample>& examples = rows.front().best().tests.front().examples;
  if (examples.front().hypothesis.empty() && examples.front().input.empty()) return;  // a language model
  const std::size_t count = std::min(most, examples.size());
  Table table({"", "text"});
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t k = n * examples.size() / count;
    if (n > 0) table.rule();
    table.row({fmt::format("input, example {}", k + 1), shortened(examples[k].input, longest)});
    table.row({"reference", shortened(examples[k].reference, longest)});
    for (const ComparedRow& row : rows)
      table.row({row.title, shortened(row.best().tests.front().examples.at(k).hypothesis, longest)});
  }
  report.section("Examples")
      .add(
          table,
          "Test examples at even distances, and the answers of each row's best run. All are in examples.*.jsonl in the "
          "runs' directories.");
}

}  // namespace

void write_report(const std::filesystem::path& path, const ComparisonReport& from) {
  Report report(from.program, from.data);
  const Rows rows = finished_rows(from.rows);
  report.section("Test").add(comparison_table(from.rows), comparison_caption(from.rows));
  for (std::size_t set = 0; set < rows.front().best().tests.size(); ++set) add_scores(report, rows, set);
  if (from.trials.size() > from.rows.size())
    report.section("Search").add(trials_table(from.trials), "Every trial; the best of each row is in the table above.");
  add_papers(report, from.program, rows);
  std::vector<CurveRuns> curves;
  std::vector<PicturedRun> pictured;
  for (const ComparedRow& row : rows) {
    curves.push_back({row.title, {}});
    for (const RunResult* run : row.finished()) curves.back().runs.push_back(run->directory);
    pictured.push_back({row.title, fmt::format("Seed {}.", row.best().seed), row.best().directory});
  }
  add_learning_curves(report, curves, rows.front().best().training->score_name);
  add_examples(report, rows);
  constexpr std::size_t most_bytes = 600'000;
  add_attention_section(report, pictured, most_bytes);
  report.section("Configuration").configuration(from.configuration);
  report.write(path);
}

}  // namespace fovea
