#include "experiments/support/sequence/sequence_results.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <omp.h>

#include "experiments/support/metrics/statistics.h"

namespace fovea {

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// The mean over the attentions of a place; NaN where there is none.
double mean_share(const SequenceTest& test, AttentionShare::Place place) {
  std::vector<double> percents;
  for (const AttentionShare& share : test.shares)
    if (share.place == place) percents.push_back(share.percent);
  return mean(percents);
}

/// Global attention's is the whole source.
double window_of(const SequenceTest& test) {
  return test.window ? test.window->average : test.source_length.value_or(unknown);
}

double per_word(const Likelihood& text) { return text.words > 0 ? word_perplexity(text) : unknown; }

double bits_per_character(const Likelihood& text) {
  return text.characters > 0 ? bits_per(text.characters, text.negative_log) : unknown;
}

/// A number of each run that a column has the mean of.
struct Column {
  std::string heading;
  int decimals;
  std::function<double(const SequenceOutcome&)> value;
};

void add_test_columns(std::vector<Column>& columns, const std::vector<ComparedModel>& compared) {
  auto any = [&](auto&& has) {
    return std::any_of(compared.begin(), compared.end(), [&](const ComparedModel& row) {
      return std::any_of(row.runs.begin(), row.runs.end(), [&](const SequenceOutcome& run) { return has(run.test); });
    });
  };
  if (any([](const SequenceTest& test) { return test.alignment_error.has_value(); }))
    columns.push_back(
        {"AER", 3, [](const SequenceOutcome& run) { return run.test.alignment_error.value_or(unknown); }});
  if (any([](const SequenceTest& test) { return test.window.has_value(); }))
    columns.push_back({"window", 1, [](const SequenceOutcome& run) { return window_of(run.test); }});
  using Place = AttentionShare::Place;
  auto add_share = [&](Place place, const char* name) {
    if (any([&](const SequenceTest& test) { return !std::isnan(mean_share(test, place)); }))
      columns.push_back({name, 1, [place](const SequenceOutcome& run) { return mean_share(run.test, place); }});
  };
  add_share(Place::encoder, "encoder %");
  add_share(Place::decoder, "decoder %");
  add_share(Place::source, "cross %");
}

/// What stands behind the scores.
std::vector<Column> columns_of(const std::vector<ComparedModel>& compared) {
  const SequenceOutcome& first = compared.front().runs.front();
  std::vector<Column> columns{
      {"perplexity", 3, [](const SequenceOutcome& run) { return token_perplexity(run.test.text); }}};
  if (first.test.hypotheses.empty()) {
    columns.push_back({"per word", 3, [](const SequenceOutcome& run) { return per_word(run.test.text); }});
    columns.push_back({"bits/char", 3, [](const SequenceOutcome& run) { return bits_per_character(run.test.text); }});
  }
  add_test_columns(columns, compared);
  return columns;
}

std::vector<double> of_runs(const ComparedModel& row, const std::function<double(const SequenceOutcome&)>& value) {
  std::vector<double> values;
  for (const SequenceOutcome& run : row.runs) values.push_back(value(run));
  return values;
}

double steps_per_second(const SequenceOutcome& run) {
  return run.training ? static_cast<double>(run.training->updates) / run.training->seconds : unknown;
}

SummedMetric first_metric(const ComparedModel& row) {
  const SequenceTest& test = row.runs.front().test;
  return test.scores.empty() ? perplexity_metric(test.sentences, &Likelihood::tokens) : test.scores.front().metric;
}

}  // namespace

Table sequence_table(const std::vector<ComparedModel>& compared) {
  const ComparedModel& first = compared.front();
  const SequenceOutcome& first_run = first.runs.front();
  const bool compares = compared.size() > 1, decodes = !first_run.test.hypotheses.empty();
  const std::vector<Column> columns = columns_of(compared);
  std::vector<std::string> headings{"model"};
  for (const TextScore& score : first_run.test.scores) headings.push_back(score.name);
  if (compares && decodes) headings.emplace_back("p");
  for (const Column& column : columns) headings.push_back(column.heading);
  if (compares && !decodes) headings.emplace_back("p");
  headings.emplace_back("parameters");
  if (first_run.training) headings.emplace_back("steps/s");
  if (first_run.training && compares) headings.emplace_back("relative");
  if (decodes) headings.emplace_back("sentences/s");
  Table table(headings);
  for (const ComparedModel& row : compared) {
    const Cell p = !compares || &row == &first
                       ? Cell()
                       : Cell::number(paired_bootstrap(first_metric(first), first_metric(row)).p_two_sided, 3);
    std::vector<Cell> cells{row.title};
    for (std::size_t k = 0; k < first_run.test.scores.size(); ++k)
      cells.push_back(
          Cell::mean_of(of_runs(row, [&](const SequenceOutcome& run) { return run.test.scores[k].metric.value(); }),
                        first_run.test.scores[k].decimals));
    if (compares && decodes) cells.push_back(p);
    for (const Column& column : columns) cells.push_back(Cell::mean_of(of_runs(row, column.value), column.decimals));
    if (compares && !decodes) cells.push_back(p);
    cells.emplace_back(row.runs.front().parameters);
    const double speed = mean(of_runs(row, steps_per_second));
    if (first_run.training) cells.push_back(Cell::number(speed, 2));
    if (first_run.training && compares)
      cells.push_back(Cell::number(speed / mean(of_runs(first, steps_per_second)), 2));
    if (decodes)
      cells.push_back(Cell::number(
          mean(of_runs(row, [](const SequenceOutcome& run) { return run.test.sentences_per_second(); })), 1));
    table.row(std::move(cells));
  }
  return table;
}

namespace {

/// Without those that are not known.
void add_known(Json& to, const char* key, double value) {
  if (std::isfinite(value)) to[key] = value;
}

Json to_json(const SequenceTest& test) {
  Json json = {{"sentences", test.sentences.size()},
               {"tokens", test.text.tokens},
               {"negative_log_likelihood", test.text.negative_log}};
  if (test.text.words > 0) json.update({{"words", test.text.words}, {"characters", test.text.characters}});
  add_known(json, "perplexity", token_perplexity(test.text));
  add_known(json, "word_perplexity", per_word(test.text));
  add_known(json, "bits_per_character", bits_per_character(test.text));
  for (const TextScore& score : test.scores) json["scores"][score.name] = score.metric.value();
  if (!test.hypotheses.empty()) {
    json["decoding_seconds"] = test.decoding.wall;
    json["decoding_cpu_seconds"] = test.decoding.cpu;
    json["sentences_per_second"] = test.sentences_per_second();
  }
  if (test.source_length) json["source_length"] = *test.source_length;
  if (test.window) json["window"] = {{"average", test.window->average}, {"pooled", test.window->pooled}};
  if (test.alignment_error) json["alignment_error_rate"] = *test.alignment_error;
  for (const AttentionShare& share : test.shares) json["attention_within"][share.name] = share.percent;
  return json;
}

}  // namespace

Json to_json(const std::string& title, const SequenceOutcome& outcome) {
  Json json = {{"title", title}, {"seed", outcome.seed}, {"parameters", outcome.parameters}};
  json["test"] = to_json(outcome.test);
  if (!outcome.training) return json;
  const TrainingResult& training = *outcome.training;
  json["training"] = {{"dev_score", outcome.dev_score},        {"best_dev_score", training.best_score},
                      {"best_update", training.best_update},   {"updates", training.updates},
                      {"update_seconds", training.seconds},    {"steps_per_second", steps_per_second(outcome)},
                      {"wall_seconds", training.wall_seconds}, {"cpu_seconds", training.cpu_seconds},
                      {"threads", omp_get_max_threads()}};
  return json;
}

}  // namespace fovea
