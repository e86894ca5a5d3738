#include "experiments/support/analysis/run_analyses.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <fmt/core.h>

#include "attention/language/specification.h"
#include "attention/registry.h"
#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/data/text_sets.h"
#include "experiments/support/metrics/alignment.h"
#include "experiments/support/metrics/attention_spread.h"
#include "experiments/support/metrics/statistics.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/sequence/sequence_testing.h"
#include "experiments/support/sequence/word_alignment.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/record.h"
#include "tensor/support/suggestion.h"

namespace fovea {

namespace {

using Path = std::filesystem::path;

/// Calls visitor(sentence) for the chosen sentences of a run.
template <class Visitor>
std::size_t for_sentences(AnalyzedRun& run, const SentenceChoice& choice, const Visitor& visitor) {
  const std::size_t count = choice.most > 0 ? std::min(run.size(), std::size_t(choice.most)) : run.size();
  for (std::size_t k = 0; k < count; ++k) visitor(run.sentence(k));
  return count;
}

/// Calls visitor(view) for every attention of the chosen sentences. Returns the number of sentences.
template <class Visitor>
std::size_t for_attentions(const Path& path, const SentenceChoice& choice, const Visitor& visitor) {
  const auto run = AnalyzedRun::open(path, choice.part);
  return for_sentences(*run, choice, [&](const SentenceView& sentence) {
    for (const AttentionView& view : sentence.attentions) visitor(view);
  });
}

/// The titles of the runs. Equal titles are followed by the directories.
std::vector<std::string> titles_of(const Runs& runs) {
  std::vector<std::string> titles;
  for (const Path& run : runs) titles.push_back(title_of_run(run));
  const std::vector<std::string> all = titles;
  for (std::size_t r = 0; r < runs.size(); ++r)
    if (std::count(all.begin(), all.end(), all[r]) > 1)
      titles[r] += fmt::format(" ({})", runs[r].lexically_normal().string());
  return titles;
}

/// A curve over 0, 1, 2, ..., or from another first number.
Series curve_of(const std::string& name, const std::vector<double>& y, bool dashed = false, double first = 0) {
  Series series{.name = name, .x = y, .y = y, .dashed = dashed};
  std::iota(series.x.begin(), series.x.end(), first);
  return series;
}

/// A row for each token, with its number, the token and its values.
using Columns = std::vector<std::pair<std::string, std::vector<double>>>;
Table table_of_tokens(const char* what, const std::vector<std::string>& tokens, const Columns& columns,
                      int decimals = 3) {
  std::vector<std::string> headings{what, "token"};
  for (const auto& [name, values] : columns) headings.push_back(name);
  Table table(headings);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::vector<Cell> row{i, tokens[i]};
    for (const auto& [name, values] : columns) row.push_back(Cell::number(values[i], decimals));
    table.row(row);
  }
  return table;
}

std::string spaced(std::string name) { return std::replace(name.begin(), name.end(), '_', ' '), name; }

std::string words_of(const SentenceView& sentence) { return shortened(sentence.text(), 160); }

/// The place of an attention in its model, by which tables are grouped.
struct Where {
  Place place;
  int layer, number;
  std::string method;
  auto operator<=>(const Where&) const = default;
};
Where where_of(const AttentionView& view) { return {view.place, view.layer, view.number, view.method}; }

}  // namespace

// ---- One attention

std::vector<const ViewedQuantity*> quantities_of(const AttentionView& view, const std::string& what) {
  std::vector<std::vector<std::string>> choices{{what}};  // the first that is there
  if (what == "pointers") choices = {{"left_pointer", "right_pointer"}};
  if (what == "window") choices = {{"window"}, {"window_factor"}, {"first_key", "last_key"}, {"seen"}};
  if (what == "mask") choices = {{"mask"}, {"window"}, {"seen"}};
  for (const std::vector<std::string>& names : choices) {
    std::vector<const ViewedQuantity*> found;
    for (const std::string& name : names) found.push_back(view.find(name));
    if (std::count(found.begin(), found.end(), nullptr) == 0) return found;
  }
  return {&view.at(choices.front().front())};
}

namespace {

std::vector<std::int64_t> heads_of(const ViewedQuantity& quantity, std::optional<std::int64_t> head) {
  if (head) return {*head};
  std::vector<std::int64_t> all(static_cast<std::size_t>(quantity.heads));
  std::iota(all.begin(), all.end(), 1);
  return all;
}

/// A table of pairs: a row for each query, a column for each key.
Table table_of_pairs(const AttentionView& view, const std::vector<double>& values) {
  Columns columns;
  for (std::size_t j = 0; j < view.keys.size(); ++j) {
    auto& [heading, column] = columns.emplace_back(fmt::format("{} {}", j, view.keys[j]), std::vector<double>());
    for (std::size_t i = 0; i < view.queries.size(); ++i) column.push_back(values[i * view.keys.size() + j]);
  }
  return table_of_tokens("query", view.queries, columns);
}

Chart figure_of_pairs(const AttentionView& view, const ViewedQuantity& quantity, std::optional<std::int64_t> head) {
  const std::string title = fmt::format("{}: {}", view.title(), spaced(quantity.name));
  if (!head) {
    HeadMaps maps = head_maps(view, quantity, heads_of(quantity, {}));
    maps.title = title;
    return maps;
  }
  return HeatMap{.title = title + ", " + head_name(*head),
                 .queries = picture_labels(view.queries),
                 .keys = picture_labels(view.keys),
                 .values = view.head(quantity, *head)};
}

}  // namespace

Finding attention_finding(const AttentionView& view, const std::string& what, std::optional<std::int64_t> head,
                          const std::string& sentence) {
  Finding finding{.title = fmt::format("{}: {}", view.title(), what), .notes = {view.method, sentence}};
  for (const ViewedQuantity* quantity : quantities_of(view, what)) {
    if (quantity->of_pairs) {
      for (std::int64_t h : heads_of(*quantity, head))
        finding.tables.push_back(
            {spaced(quantity->name) + ", " + head_name(h), table_of_pairs(view, view.head(*quantity, h))});
      finding.figures.push_back(figure_of_pairs(view, *quantity, head));
      continue;
    }
    LineChart chart = head_curves(view, *quantity, heads_of(*quantity, head));
    chart.title = view.title() + ": " + chart.title;
    Columns columns;
    for (std::int64_t h : heads_of(*quantity, head)) columns.emplace_back(head_name(h), view.head(*quantity, h));
    finding.tables.push_back({spaced(quantity->name), table_of_tokens("query", view.queries, columns)});
    finding.figures.push_back(chart);
  }
  return finding;
}

namespace {

/// The softmax of one head's scores over the keys that the query sees.
std::vector<double> softmax_of_seen(const std::vector<double>& scores, const std::vector<double>& seen) {
  std::vector<double> weights(scores.size(), 0);
  double largest = -HUGE_VAL, sum = 0;
  for (std::size_t j = 0; j < scores.size(); ++j)
    if (seen[j] > 0) largest = std::max(largest, scores[j]);
  for (std::size_t j = 0; j < scores.size(); ++j) sum += weights[j] = seen[j] > 0 ? std::exp(scores[j] - largest) : 0;
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace

Finding row_finding(const AttentionView& view, std::int64_t head, std::int64_t query) {
  const std::size_t I = view.queries.size(), J = view.keys.size();
  require(query >= 0 && query < std::int64_t(I), "--query {}: the sentence has {} queries, counted from 0", query, I);
  const auto row = [&](const char* name, std::int64_t h) {
    const std::vector<double> all = view.head(view.at(name), h);
    const auto begin = all.begin() + query * static_cast<std::ptrdiff_t>(J);
    return std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(J));
  };
  const std::vector<double> scores = row("scores", head), bias = row("bias", head), weights = row("weights", head);
  // The weights of several heads are averaged, and so are their softmaxes: that of mean scores would be another thing.
  const std::vector<std::int64_t> heads =
      heads_of(view.at("scores"), head > 0 ? std::optional(head) : std::optional<std::int64_t>());
  std::vector<double> plain(J, 0);
  for (std::int64_t h : heads) {
    const std::vector<double> of_head = softmax_of_seen(row("scores", h), row("seen", h));
    for (std::size_t j = 0; j < J; ++j) plain[j] += of_head[j] / double(heads.size());
  }
  return {
      .title =
          fmt::format("{}, {}, query {} “{}”", view.title(), head_name(head), query, view.queries[std::size_t(query)]),
      .notes = {view.method},
      .tables = {{"",
                  table_of_tokens(
                      "key", view.keys,
                      {{"energy", scores}, {"softmax of energies", plain}, {"bias", bias}, {"revised weight", weights}},
                      4)}},
      .figures = {LineChart{.title = "Bias of the energies", .x = {"key"}, .series = {curve_of("", bias)}},
                  LineChart{.title = "Original and revised distribution",
                            .x = {"key"},
                            .series = {curve_of("original", plain, true), curve_of("revised", weights)}}}};
}

// ---- Distributions over sentences

namespace {

/// The values of a quantity for each head of an attention, over all queries of all sentences.
using HeadValues = std::vector<std::vector<double>>;
struct Widths {
  HeadValues centers, widths;
};

void add_values(HeadValues& to, const AttentionView& view, const ViewedQuantity* quantity) {
  if (!quantity) return;
  to.resize(static_cast<std::size_t>(quantity->heads));
  for (std::int64_t h = 1; h <= quantity->heads; ++h)
    for (double value : view.head(*quantity, h)) to[std::size_t(h) - 1].push_back(value);
}

/// The values of head h, from 0; none if the attention does not have the quantity.
std::vector<double> values_of(const HeadValues& heads, std::size_t h) {
  return h < heads.size() ? heads[h] : std::vector<double>();
}

std::vector<double> all_of(const HeadValues& heads) {
  std::vector<double> all;
  for (const std::vector<double>& head : heads) all.insert(all.end(), head.begin(), head.end());
  return all;
}

std::string place_text(const Where& where) { return fmt::format("{}, layer {}", name_of(where.place), where.layer); }

/// The charts of one layer: a point for each query, and the distribution of the widths.
struct WidthCharts {
  ScatterPlot points;
  Histogram widths;

  void add(const std::string& run, const Where& where, const Widths& values) {
    points.title = place_text(where) + ": centers and widths", points.x = {"center P"}, points.y = {"width D"};
    widths.title = place_text(where) + ": widths", widths.x = {"width D, tokens"};
    Series series{.name = run};
    const std::vector<double> P = all_of(values.centers), D = all_of(values.widths);
    constexpr std::size_t most_points = 1500;
    for (std::size_t i = 0; P.size() == D.size() && i < P.size(); i += P.size() / most_points + 1)
      series.x.push_back(P[i]), series.y.push_back(D[i]);
    points.series.push_back(series);
    widths.groups.push_back({run, D});
  }
};

}  // namespace

Finding widths_finding(const Runs& runs, const SentenceChoice& sentences) {
  const std::vector<std::string> titles = titles_of(runs);
  Table table({"run", "place", "layer", "head", "center P", "width D", "queries"});
  std::map<std::string, WidthCharts> charts;  // by layer
  LineChart by_head{.title = "Mean width of each head", .x = {"head"}, .y = {"D, tokens"}};
  std::size_t count = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::map<Where, Widths> found;
    count = for_attentions(runs[r], sentences, [&](const AttentionView& view) {
      if (!view.find("center") && !view.find("width")) return;
      add_values(found[where_of(view)].centers, view, view.find("center"));
      add_values(found[where_of(view)].widths, view, view.find("width"));
    });
    require(!found.empty(), "{}: none of its attentions has a center or a width", runs[r].string());
    for (const auto& [where, values] : found) {
      Series heads{.name = (runs.size() > 1 ? titles[r] + ", " : "") + place_text(where)};
      for (std::size_t h = 0; h < std::max(values.centers.size(), values.widths.size()); ++h) {
        const std::vector<double> P = values_of(values.centers, h), D = values_of(values.widths, h);
        table.row({titles[r], name_of(where.place), where.layer, h + 1, Cell::mean_of(P, 2), Cell::mean_of(D, 2),
                   std::max(P.size(), D.size())});
        if (D.empty()) continue;
        heads.x.push_back(double(h) + 1);
        heads.y.push_back(mean(D));
        heads.deviation.push_back(D.size() > 1 ? sample_standard_deviation(D) : 0);
      }
      if (values.widths.empty()) continue;
      by_head.series.push_back(heads);
      charts[place_text(where)].add(titles[r], where, values);
    }
  }
  Finding finding{
      .title = "Centers and widths of windows",
      .notes = {fmt::format("Means and standard deviations over all queries of {} sentences, in tokens.", count)},
      .tables = {{"", table}}};
  for (const auto& [layer, chart] : charts) finding.figures.insert(finding.figures.end(), {chart.points, chart.widths});
  if (!by_head.series.empty()) finding.figures.push_back(by_head);
  return finding;
}

namespace {

/// The percentages of one head (or of the mean of all) within each distance, for one sentence.
std::vector<double> mass_within(const AttentionView& view, std::int64_t head, const std::vector<int>& distances) {
  const auto I = std::int64_t(view.queries.size()), J = std::int64_t(view.keys.size());
  const ViewedQuantity& weights = view.quantities.front();
  // the mean over heads of the shares, which for shares near the query's position is the share of the mean
  const std::vector<double> values = head > 0 ? view.head(weights, head) : weights.values;
  const Tensor tensor = Tensor::from(values, {1, head > 0 ? 1 : weights.heads, I, J});
  std::vector<double> shares;
  for (int distance : distances)
    shares.push_back((view.place == Place::cross ? attention_near_peak(tensor, std::vector{I}, std::vector{J}, distance)
                                                 : attention_within(tensor, std::vector{I}, distance))
                         .front());
  return shares;
}

}  // namespace

Finding mass_finding(const Runs& runs, const std::vector<int>& distances, bool by_head,
                     const SentenceChoice& sentences) {
  const std::vector<std::string> titles = titles_of(runs);
  std::vector<std::string> headings{"run", "place", "layer", "attention", "head"};
  for (int distance : distances) headings.push_back(fmt::format("w = {}", distance));
  Table table(headings);
  LineChart chart{.title = "Attention near the query", .x = {"distance w, tokens"}, .y = {"% of the attention"}};
  const std::vector<double> x(distances.begin(), distances.end());
  std::size_t count = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::map<std::pair<Where, std::int64_t>, std::vector<double>> sums;  // by attention and head
    count = for_attentions(runs[r], sentences, [&](const AttentionView& view) {
      for (std::int64_t h = 0; h <= (by_head ? view.quantities.front().heads : 0); ++h) {
        std::vector<double>& sum = sums[{where_of(view), h}];
        const std::vector<double> shares = mass_within(view, h, distances);
        sum.resize(shares.size());
        for (std::size_t d = 0; d < shares.size(); ++d) sum[d] += shares[d];
      }
    });
    for (auto& [key, sum] : sums) {
      const auto& [where, head] = key;
      std::vector<Cell> row{titles[r], name_of(where.place), where.layer, where.method,
                            head == 0 ? Cell("all") : Cell(head)};
      for (double& share : sum) row.push_back(Cell::number(share /= double(count), 2));
      table.row(row);
      const std::string run_title = runs.size() > 1 ? titles[r] + ", " : "";
      if (head == 0)
        chart.series.push_back(
            {.name = fmt::format("{}{}: {}", run_title, place_text(where), where.method), .x = x, .y = sum});
    }
  }
  return {.title = "Attention within w tokens",
          .notes = {fmt::format("Percent of the weights on keys at most w tokens from the query's position; for cross, "
                                "from the most attended token. Means over {} sentences (Fan et al. 2021, eq. 13).",
                                count)},
          .tables = {{"", table}},
          .figures = {chart}};
}

// ---- Decoding steps

namespace {

/// The names and mean-of-heads values of all quantities with a number for each query, and the size of a hard window.
Columns query_quantities(const AttentionView& view) {
  Columns found;
  for (const ViewedQuantity& quantity : view.quantities)
    if (!quantity.of_pairs) found.emplace_back(quantity.name, view.head(quantity, 0));
  const ViewedQuantity *first = view.find("first_key"), *last = view.find("last_key");
  if (!first || !last) return found;
  std::vector<double> from = view.head(*first, 0), size = view.head(*last, 0);
  for (std::size_t i = 0; i < size.size(); ++i) size[i] += 1 - from[i];
  found.emplace_back("window_size", size);
  return found;
}

}  // namespace

Finding steps_finding(const Path& run_path, std::int64_t sentence, const AttentionChoice& choice,
                      const SentenceChoice& sentences) {
  const auto run = AnalyzedRun::open(run_path, sentences.part);
  const SentenceView shown = run->checked_sentence(sentence);
  const AttentionView& view = shown.chosen(choice);
  Columns columns = query_quantities(view);
  for (auto& [name, values] : columns) name = spaced(name);
  const std::vector<double> weights = view.head(view.quantities.front(), 0);
  std::vector<double> peaks;  // the most attended key
  for (auto row = weights.begin(); row < weights.end(); row += std::ptrdiff_t(view.keys.size()))
    peaks.push_back(double(std::max_element(row, row + std::ptrdiff_t(view.keys.size())) - row));
  columns.emplace_back("peak", peaks);
  Finding finding{.title = fmt::format("{}, step by step", view.title()),
                  .notes = {view.method, words_of(shown)},
                  .tables = {{"steps of the sentence", table_of_tokens("step", view.queries, columns)}},
                  .figures = {figure_of_pairs(view, view.quantities.front(), 0)}};
  LineChart positions{.title = "Positions among the keys", .x = {"step"}};
  for (const auto& [name, values] : columns) {
    if (name == "focus" || name == "center" || name.ends_with(" key") || name == "peak")
      positions.series.push_back(curve_of(name, values, name == "peak"));
    else
      finding.figures.push_back(LineChart{.title = name, .x = {"step"}, .series = {curve_of("", values)}});
  }
  finding.figures.push_back(positions);
  std::map<std::string, std::vector<double>> means;  // of each sentence
  const std::size_t count = for_sentences(*run, sentences, [&](const SentenceView& each) {
    const AttentionView& same = each.chosen(choice);
    for (const auto& [name, values] : query_quantities(same)) means[name].push_back(mean(values));
    means["source_length"].push_back(double(same.keys.size()));
  });
  Table summary({"quantity", "mean"});
  for (const auto& [name, values] : means) summary.row({spaced(name), Cell::mean_of(values, 3)});
  finding.tables.push_back({fmt::format("means over {} sentences", count), summary});
  return finding;
}

// ---- Alignments

namespace {

/// The last attention over the source, which error rates are computed from. Throws Error if there is none.
const AttentionView& last_over_source(const SentenceView& sentence, const Path& run) {
  const AttentionView* last = nullptr;
  for (const AttentionView& view : sentence.attentions)
    if (view.place == Place::cross) last = &view;
  require(last, "{}: its model has no attention over a source", run.string());
  return *last;
}

/// The links by the weights [I, J] of a sentence whose tokens are words, with </s> behind both sides.
std::set<Link> links_by_weights(const std::vector<double>& weights, std::size_t I, std::size_t J) {
  std::vector<std::vector<float>> attention;
  std::vector<std::int64_t> sources(J - 1), targets(I - 1);
  std::iota(sources.begin(), sources.end(), 0), std::iota(targets.begin(), targets.end(), 0);
  for (std::size_t i = 0; i < I; ++i)
    attention.emplace_back(weights.begin() + std::ptrdiff_t(i * J), weights.begin() + std::ptrdiff_t((i + 1) * J));
  return word_links(attention, sources, targets);
}

/// The map with 1 at the gold links, which are marked, and 0 elsewhere.
HeatMap gold_map(HeatMap map) {
  map.title = "gold";
  std::fill(map.values.begin(), map.values.end(), 0);
  for (const auto& [i, j] : map.marked) map.values[std::size_t(i) * map.keys.size() + std::size_t(j)] = 1;
  return map;
}

}  // namespace

Finding alignment_finding(const Runs& runs, std::int64_t sentence, Part part) {
  const std::vector<std::string> titles = titles_of(runs);
  Table table({"run", "links", "AER of the sentence", "AER of the test set"});
  Finding finding{.title = "Alignment by attention"};
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto run = AnalyzedRun::open(runs[r], part);
    const SentenceView shown = run->checked_sentence(sentence);
    const AttentionView& view = last_over_source(shown, runs[r]);
    const std::vector<double> weights = view.head(view.quantities.front(), 0);
    const std::size_t I = view.queries.size(), J = view.keys.size();
    const bool are_words =
        split_words(shown.pair.source).size() + 1 == J && split_words(shown.pair.target).size() + 1 == I;
    const GoldAlignment gold = parse_alignment(shown.pair.alignment);
    std::vector<Cell> row{titles[r], {}, {}, {}};
    HeatMap map{.title = titles[r],
                .queries = picture_labels(view.queries),
                .keys = picture_labels(view.keys),
                .values = weights,
                .low = 0.0,
                .high = 1.0};
    if (are_words) {
      const std::set<Link> links = links_by_weights(weights, I, J);
      row[1] = alignment_text(links);
      if (!gold.possible.empty()) row[2] = Cell::number(alignment_error_rate(alignment_statistics(links, gold)), 3);
      for (const Link& link : gold.possible) map.marked.emplace_back(int(link.target), int(link.source));
    }
    if (const auto result = load_result(runs[r]); result && !result->tests.empty())
      row[3] = Cell::number(measured_value(result->tests.front(), "AER"), 3);
    table.row(row);
    finding.figures.push_back(map);
    if (r + 1 < runs.size()) continue;
    finding.notes = {words_of(shown), gold.possible.empty() ? "There are no gold links for this sentence."
                                                            : "Gold links: " + alignment_text(gold.sure) +
                                                                  "; they are outlined where tokens are words."};
    if (!gold.possible.empty() && are_words) finding.figures.push_back(gold_map(map));
  }
  finding.tables = {{"", table}};
  return finding;
}

// ---- Charts of finished runs

namespace {

RunResult finished_run(const Path& run) {
  require(std::filesystem::is_directory(run), "{}: there is no such directory", run.string());
  std::optional<RunResult> result = load_result(run);
  require(result.has_value(), "{}: the run is not finished: it has no result.json", run.string());
  require(result->failure.empty(), "{}: the run has no test scores: {}", run.string(), result->failure);
  require(!result->tests.empty(), "{}: the run has no test scores", run.string());
  require(result->tests.front().known_key.empty(), "{}: a reduced record, which has no texts; this command reads them",
          run.string());
  return std::move(*result);
}

/// The runs. Throws Error unless all are finished, of one program, and have the same first metric.
std::vector<RunResult> runs_of_one_task(const Runs& runs) {
  std::vector<RunResult> all;
  for (const Path& run : runs) {
    const RunResult &own = all.emplace_back(finished_run(run)), &first = all.front();
    require(program_of(own) == program_of(first), "{} is a run of {}, {} of {}; their scores cannot be compared",
            runs.front().string(), program_of(first), run.string(), program_of(own));
    const std::string &metric = own.tests.front().metrics.front(), &wanted = first.tests.front().metrics.front();
    require(metric == wanted, "the first metric of {} is {}, of {} {}; give runs with the same one",
            runs.front().string(), wanted, run.string(), metric);
  }
  return all;
}

}  // namespace

Finding length_finding(const Runs& runs, const std::vector<int>& ends) {
  require(std::is_sorted(ends.begin(), ends.end()), "--buckets: the lengths must grow");
  const std::vector<RunResult> results = runs_of_one_task(runs);
  const std::vector<std::string> titles = titles_of(runs);
  Table table({"run", "words", "examples", "score", "value"});
  LineChart chart{.title = "Score by length", .x = {"words of the input, at most"}};
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const TestResult& test = results[r].tests.front();
    std::map<std::size_t, std::vector<TestedExample>> buckets;
    std::size_t longest = 0;
    for (const TestedExample& example : test.examples) {
      const std::size_t words = split_words(example.input.empty() ? example.reference : example.input).size();
      longest = std::max(longest, words);
      const auto end = std::find_if(ends.begin(), ends.end(), [&](int e) { return words <= std::size_t(e); });
      buckets[std::size_t(end - ends.begin())].push_back(example);
    }
    Series series{.name = titles[r]};
    for (const auto& [k, examples] : buckets) {
      const TextScore score = scores_of(examples, {test.metrics.front()}, test.options).front();
      const std::size_t first = k == 0 ? 0 : std::size_t(ends[k - 1]) + 1,
                        last = k < ends.size() ? std::size_t(ends[k]) : longest;
      table.row({titles[r], fmt::format("{}–{}", first, last), examples.size(), score.name,
                 Cell::number(score.metric.value(), score.decimals)});
      series.x.push_back(double(last)), series.y.push_back(score.metric.value());
      chart.y = {score.name};
    }
    chart.series.push_back(series);
  }
  return {.title = "Scores by length of the input", .notes = {}, .tables = {{"", table}}, .figures = {chart}};
}

Finding ngram_finding(const Runs& runs, int longest) {
  require(runs.size() >= 2, "ngrams: needs at least two runs; the first is the one that the others are compared with");
  const std::vector<RunResult> results = runs_of_one_task(runs);
  const std::string program = program_of(results.front());
  require(program == "translate" || program == "summarize",
          "{} is a run of {}, which writes no texts; expected runs of translate or summarize", runs.front().string(),
          program);
  const std::vector<std::string> titles = titles_of(runs);
  Table table({"run", "score", "n", "value", "gap"});
  LineChart charts[2] = {{.title = "Gap of n-gram scores", .x = {"n"}, .y = {"n-grams alone"}, .series = {}},
                         {.title = "Gap of BLEU-n", .x = {"n"}, .y = {"n-grams of 1 to n words"}, .series = {}}};
  std::vector<double> base;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const TestResult& test = results[r].tests.front();
    std::vector<double> values;
    for (const TextScore& score : scores_of(test.examples, {"ngrams"}, test.options))
      values.push_back(score.metric.value());
    if (r == 0) base = values;
    const std::size_t orders = values.size() / 2, count = std::min(orders, std::size_t(longest));
    for (std::size_t kind : {0, 1}) {  // the individual scores come first
      const std::vector<double> own(values.begin() + std::ptrdiff_t(kind * orders),
                                    values.begin() + std::ptrdiff_t(kind * orders + count));
      std::vector<double> gaps;
      for (std::size_t n = 0; n < count; ++n) {
        gaps.push_back(own[n] - base[kind * orders + n]);
        table.row({titles[r], kind == 0 ? "individual" : "cumulative", n + 1, Cell::number(own[n], 2),
                   Cell::number(gaps[n], 2)});
      }
      charts[kind].series.push_back(curve_of(titles[r], gaps, r == 0, 1));
    }
  }
  return {.title = "n-gram scores compared with " + titles[0],
          .notes = {"Scores of mteval-v13a on lower-cased text; a gap is the difference to the first run."},
          .tables = {{"", table}},
          .figures = {charts[0], charts[1]}};
}

// ---- Options that vary at test time

namespace {

struct Edit {
  std::size_t at, erased;
  std::string text;
};

void add_edits(const std::vector<MethodText>& sum, const std::string& specification, const std::string& name,
               const std::string& value, std::vector<Edit>& edits) {
  for (const MethodText& method : sum) {
    for (const Share& share : method.shares) add_edits(share.sum, specification, name, value, edits);
    const MethodEntry* entry = find_method(method.name);
    if (!entry) continue;
    const auto is_named = [&](const auto& option) { return option.name == name; };
    const auto own = std::find_if(method.options.begin(), method.options.end(), is_named);
    const std::vector<OptionDescription> known = describe_options(*entry);
    if (own != method.options.end()) {
      edits.push_back({own->value_column - 1, own->value.size(), value});
    } else if (std::any_of(known.begin(), known.end(), is_named)) {
      const std::size_t end = method.column - 1 + method.name.size();
      const std::string set = name + "=" + value;
      if (method.options.empty())
        edits.push_back({end, 0, "(" + set + ")"});
      else
        edits.push_back({specification.find('(', end) + 1, 0, set + ", "});
    }
  }
}

}  // namespace

std::string with_option(const std::string& specification, const std::string& name, const std::string& value) {
  std::vector<Edit> edits;
  add_edits(parse_specification(specification), specification, name, value, edits);
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) { return a.at > b.at; });
  std::string text = edits.empty() ? "" : specification;
  for (const Edit& edit : edits) text.replace(edit.at, edit.erased, edit.text);
  return text;
}

namespace {

using MethodFlag = std::pair<const char*, const std::string*>;
std::vector<MethodFlag> method_flags(const SequenceModelOptions& model) {
  return {{"--attention", &model.attention},
          {"--decoder-attention", &model.decoder_attention},
          {"--cross-attention", &model.cross_attention}};
}

void add_options(const std::vector<MethodText>& sum, std::set<std::string>& names) {
  for (const MethodText& method : sum) {
    for (const Share& share : method.shares) add_options(share.sum, names);
    if (const MethodEntry* entry = find_method(method.name))
      for (const OptionDescription& option : describe_options(*entry)) names.insert(option.name);
  }
}

/// Throws Error unless --vary can change the option: one of the model's attention methods, or a flag of beam search.
/// Another flag would change nothing here, or the data and the files.
void require_variable(const SequenceModelOptions& model, const std::string& name) {
  static const std::vector<std::string> of_search{"beam",    "length-penalty", "min-length",
                                                  "longest", "longest-ratio",  "no-repeat"};
  std::set<std::string> of_methods;
  for (const auto& [flag, text] : method_flags(model))
    if (!text->empty()) add_options(parse_specification(*text), of_methods);
  std::vector<std::string> names(of_methods.begin(), of_methods.end());
  const std::string methods =
      names.empty() ? "" : fmt::format("an option of the model's attention methods ({}), or ", listed(names));
  names.insert(names.end(), of_search.begin(), of_search.end());
  require(std::count(names.begin(), names.end(), name) > 0, "--vary: '{}' cannot vary; expected {}one of {}{}", name,
          methods, listed(of_search), did_you_mean(name, names));
}

/// The flags that give the option this value in all attentions that have it; if none has, the option is a flag.
std::vector<std::string> flags_of(const SequenceModelOptions& model, const std::string& name,
                                  const std::string& value) {
  std::vector<std::string> flags;
  for (const auto& [flag, text] : method_flags(model)) {
    const std::string changed = text->empty() ? "" : with_option(*text, name, value);
    if (!changed.empty()) flags.insert(flags.end(), {flag, changed});
  }
  return flags.empty() ? std::vector<std::string>{"--" + name, value} : flags;
}

/// The options of a run for each value of one option.
using VariedOptions = std::vector<std::pair<std::string, SequenceOptions>>;
VariedOptions varied_options(const Path& run, const SequenceModelOptions& model, const std::string& name,
                             std::string_view values, const std::string& metrics) {
  require_variable(model, name);
  VariedOptions all;
  for (std::string_view value : split_columns(values, ',')) {
    std::vector<std::string> flags = flags_of(model, name, std::string(value));
    if (!metrics.empty()) flags.insert(flags.end(), {"--metrics", metrics});
    with_flag("--vary", [&] {
      SequenceOptions& options = all.emplace_back(value, sequence_options(run, flags)).second;
      options.trained.directory = run;
      options.check();
    });
  }
  return all;
}

}  // namespace

Finding trade_off_finding(const Path& run, const std::string& vary, const std::vector<Part>& parts,
                          const std::string& metrics) {
  const std::size_t equals = vary.find('=');
  require(equals != std::string::npos && equals > 0, "--vary '{}': expected NAME=VALUE,VALUE,...", vary);
  const std::string name = vary.substr(0, equals), values = vary.substr(equals + 1);
  const SequenceOptions recorded = sequence_options(run);
  require(recorded.decodes(), "{}: --vary needs a run that decodes, of translate or summarize", run.string());
  const VariedOptions varied = varied_options(run, recorded.model, name, values, metrics);
  const PairTokenizers tokenizers = load_tokenizers(run);
  std::optional<Table> table;
  LineChart chart{.title = fmt::format("Trade-off over {}", name), .x = {"source tokens that a step scores"}};
  for (Part part : parts) {
    const PairData data(recorded.data, recorded.batches, tokenizers, part, false);
    Series series{.name = name_of(part)};
    for (const auto& [value, options] : varied) {
      const TestResult test =
          test_model(*options.load_model(tokenizers), data.tests.front(), tokenizers, options, "stopped");
      const double measured = measured_value(test, "window");
      const double window = std::isnan(measured) ? *test.source_length : measured;
      std::vector<std::string> headings{"set", name, "window"};
      std::vector<Cell> row{name_of(part), value, Cell::number(window, 2)};
      for (const TextScore& score : test.scores()) {
        headings.push_back(score.name);
        row.push_back(Cell::number(score.metric.value(), score.decimals));
      }
      if (!table) table.emplace(headings);
      table->row(row);
      series.x.push_back(window), series.y.push_back(test.scores().front().metric.value());
      chart.y = {test.scores().front().name};
    }
    chart.series.push_back(series);
  }
  return {.title = chart.title,
          .notes = {title_of_run(run), "window: the source tokens, </s> included, that a step of beam search scores."},
          .tables = {{"", *table}},
          .figures = {chart}};
}

// ---- Masks and structure

Finding masks_finding(const Path& run_path, std::int64_t sentence, Part part) {
  const auto run = AnalyzedRun::open(run_path, part);
  const SentenceView shown = run->checked_sentence(sentence);
  for (const AttentionView& view : shown.attentions) {
    const ViewedQuantity* mask = view.find("mask");
    if (!mask || view.place == Place::cross) continue;
    const std::size_t n = view.queries.size();
    HeadMaps maps{.title = "Masks M", .queries = picture_labels(view.queries), .keys = picture_labels(view.keys)};
    maps.heads.push_back({.name = "SAN", .values = std::vector<double>(n * n, 1)});
    for (std::int64_t h = 1; h <= mask->heads; ++h)
      maps.heads.push_back({.name = fmt::format("{}, head {}", view.method, h), .values = view.head(*mask, h)});
    std::vector<double> identity(n * n, 0);
    for (std::size_t i = 0; i < n; ++i) identity[i * n + i] = 1;
    maps.heads.push_back({.name = "FFN", .values = identity});
    Finding finding{.title = fmt::format("Masks: SAN, {} ({}), FFN", view.method, view.title()),
                    .notes = {words_of(shown)}};
    for (const HeadMaps::Head& head : maps.heads)
      finding.tables.push_back({head.name, table_of_pairs(view, head.values)});
    finding.figures = {maps};
    return finding;
  }
  fail("{}: none of its self-attentions has a mask, as dman and sman have", run_path.string());
}

namespace {

void add_methods(const std::vector<MethodText>& sum, std::vector<std::string>& names) {
  for (const MethodText& method : sum) {
    if (std::find(names.begin(), names.end(), method.name) == names.end()) names.push_back(method.name);
    for (const Share& share : method.shares) add_methods(share.sum, names);
  }
}

}  // namespace

Finding model_finding(const Path& run_path) {
  const auto run = AnalyzedRun::open(run_path);
  using Kind = AnalyzedRun::SubLayerText::Kind;
  Finding finding{.title = "Model of " + title_of_run(run_path)};
  Table layers({"stack", "sub-layer", "kind", "attention"});
  std::vector<std::string> methods;
  for (Place stack : {Place::encoder, Place::decoder}) {
    std::string order;
    int number = 0;
    for (const auto& part : run->parts(stack)) {
      const char* kind = part.kind == Kind::attention ? "attention"
                         : part.kind == Kind::cross   ? "attention over the source"
                                                      : "feed-forward";
      order += (order.empty() ? "" : " → ") + (part.kind == Kind::feed_forward ? std::string(kind)
                                               : part.kind == Kind::cross      ? "source: " + part.method
                                                                               : part.method);
      layers.row({name_of(stack), ++number, kind, part.method});
      if (!part.method.empty()) add_methods(parse_specification(part.method), methods);
    }
    if (!order.empty()) finding.notes.push_back(fmt::format("A layer of the {}: {}", name_of(stack), order));
  }
  Table equations({"method", "what it does", "equation", "paper"});
  for (const std::string& name : methods) {
    const MethodEntry* entry = find_method(name);
    const Combination* combination = find_combination(name);
    if (!entry && !combination) continue;
    const MethodCard& card = entry ? entry->card : combination->card;
    std::string formula = card.formula;
    std::replace(formula.begin(), formula.end(), '\n', ';');
    equations.row({name, card.summary, formula, card.reference});
  }
  Table parameters({"part", "parameters"});
  for (const ModuleCount& part : run->model().module_counts())
    if (!part.name.empty() && std::count(part.name.begin(), part.name.end(), '.') <= 2)
      parameters.row({part.name, part.parameters});
  parameters.rule().row({"total", run->model().parameter_count()});
  finding.tables = {{"sub-layers", layers}, {"attentions", equations}, {"parameters", parameters}};
  return finding;
}

}  // namespace fovea
