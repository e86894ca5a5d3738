#include "experiments/support/report/comparison_report.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/report/learning_curves.h"
#include "experiments/support/report/score_report.h"
#include "tensor/error.h"
#include "tensor/support/suggestion.h"

namespace fovea {

namespace {

using Rows = std::vector<ComparedRow>;

Rows finished_rows(const Rows& rows) {
  Rows finished;
  for (const ComparedRow& row : rows)
    if (!row.finished().empty()) finished.push_back(row);
  return finished;
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
    table.row({fmt::format("input, sentence {}", k), shortened(examples[k].input, longest)});
    table.row({"reference", shortened(examples[k].reference, longest)});
    for (const ComparedRow& row : rows)
      table.row({row.title, shortened(row.best().tests.front().examples.at(k).hypothesis, longest)});
  }
  report.section("Examples")
      .add(table,
           "Test examples at even distances, and the answers of each row's best run. Sentences are counted from 0, as "
           "in "
           "`analyze --sentence`. All are in examples.*.jsonl in the runs' directories.");
}

/// Adds the learning curves of the rows that were trained.
void add_curves(Report& report, const Rows& rows) {
  std::vector<Curve> curves;
  std::string score;
  for (const ComparedRow& row : rows) {
    Curve curve{row.full_title(), {}};
    for (const RunResult* run : row.finished()) {
      if (!run->training) continue;
      if (std::vector<Json> log = log_of(*run); !log.empty()) curve.logs.push_back(std::move(log));
      if (score.empty()) score = run->training->score_name;
    }
    if (!curve.logs.empty()) curves.push_back(std::move(curve));
  }
  if (!curves.empty()) add_learning_curves(report, curves, score);
}

/// Adds the options that differ, a line for each, and those that all rows share.
void add_configuration(Report& report, const Rows& rows) {
  report.section("Configuration");
  const RowOptions options = options_of(rows);
  if (!options.differing.empty()) {
    std::vector<std::string> headings{"option"};
    for (const ComparedRow& row : rows) headings.push_back(row.full_title());
    Table table(headings);
    for (const auto& [option, values] : options.differing) {
      std::vector<Cell> cells{"--" + option};
      cells.insert(cells.end(), values.begin(), values.end());
      table.row(std::move(cells));
    }
    report.add(table, "The options in which the rows differ.");
    report.text("The options that all rows share:");
  }
  report.configuration(options.common);
}

/// Adds a line for each start of a run: when, by which version, where, and how.
void add_origins(Report& report, const Rows& rows) {
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
  report.section("How the runs were made").add(table, "Times are UTC. A run that was resumed has several starts.");
}

void add_group(Report& report, const RunGroup& group, const ComparisonReport& from) {
  const std::size_t baseline = baseline_of(group, from.baseline);
  report.section(from.groups.size() > 1 ? group.title : "Test");
  std::string caption = comparison_caption(group.rows, baseline);
  caption.pop_back();  // the last line break
  report.add(comparison_table(group.rows, baseline), caption);
  const Rows rows = finished_rows(group.rows);
  if (rows.empty()) return;
  const RunGroup finished{group.title, rows};
  const std::size_t first = baseline_of(finished, from.baseline);
  for (const TestResult& test : rows.front().best().tests)
    report.add(
        score_table(finished, test.set, first),
        fmt::format("Each score of the test set {}, all seeds pooled. Difference: from '{}'; its interval and the "
                    "two-sided p are of a paired bootstrap (1000 resamples of the examples). ↑: p < .05, ⇑: p < "
                    ".01.",
                    test.set, rows[first].full_title()));
  if (!from.trials.empty())
    report.section("Search").add(trials_table(from.trials), "Every trial; the best of each row is in the table above.");
  add_curves(report, rows);
  add_examples(report, rows);
  std::vector<PicturedRun> pictured;
  for (const ComparedRow& row : rows)
    pictured.push_back({row.full_title(), fmt::format("Seed {}.", row.best().seed), row.best().directory});
  add_attention_section(report, pictured);
  add_configuration(report, group.rows);
  add_origins(report, group.rows);
}

}  // namespace

std::size_t baseline_of(const RunGroup& group, const std::string& title) {
  for (std::size_t k = 0; k < group.rows.size(); ++k)
    if (group.rows[k].full_title() == title) return k;
  return 0;
}

Table score_table(const RunGroup& group, const std::string& set, std::size_t baseline) {
  std::vector<const ComparedRow*> rows{&group.rows.at(baseline)};
  for (const ComparedRow& row : group.rows)
    if (&row != rows.front()) rows.push_back(&row);
  std::vector<std::string> titles;
  std::vector<std::vector<TextScore>> scores;
  std::vector<std::string> metrics;  // that every row has
  for (const TestResult& test : rows.front()->finished().front()->tests)
    for (const TextScore& score : test.scores())
      if (test.set == set && std::all_of(rows.begin(), rows.end(), [&](const ComparedRow* row) {
            return pooled_score(row->finished(), set, score.name).has_value();
          }))
        metrics.push_back(score.name);
  for (const ComparedRow* row : rows) {
    titles.push_back(row->full_title());
    scores.emplace_back();
    for (const std::string& metric : metrics) scores.back().push_back(*pooled_score(row->finished(), set, metric));
  }
  return table_of(score_rows(titles, scores, {}));
}

Report page_of(const ComparisonReport& from) {
  Report report(from.title, from.subtitle);
  for (const RunGroup& group : from.groups) add_group(report, group, from);
  return report;
}

}  // namespace fovea
