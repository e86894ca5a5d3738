// Findings about one sentence: the weights of its attentions, their windows, and its alignment.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/core.h>

#include "experiments/support/analysis/commands.h"
#include "experiments/support/metrics/alignment.h"
#include "experiments/support/metrics/statistics.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/report/comparison_table.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

std::string words_of(const SentenceView& sentence) { return shortened(sentence.text(), 160); }

std::vector<std::int64_t> heads_of(const ViewedQuantity& quantity, std::optional<std::int64_t> head) {
  if (head) return {*head};
  std::vector<std::int64_t> all(std::size_t(quantity.heads));
  std::iota(all.begin(), all.end(), quantity.first_head);
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

Figure figure_of_pairs(const AttentionView& view, const ViewedQuantity& quantity, std::optional<std::int64_t> head) {
  HeadMaps maps = head_maps(view, quantity, heads_of(quantity, head));
  maps.title = fmt::format("{}: {}", view.title(), spaced(quantity.name));
  if (head) {
    maps.title += ", " + head_name(*head);
    maps.heads = {{.values = maps.heads.front().values}};
  }
  return maps;
}

/// The quantities with these names, separated by commas: those of the head, or of all heads where none is given.
std::vector<const ViewedQuantity*> chosen_quantities(const AttentionView& view, const std::string& names,
                                                     std::optional<std::int64_t> head) {
  std::vector<const ViewedQuantity*> chosen;
  for (const std::string_view part : split_columns(names, ',')) {
    const std::string name(trimmed(part));
    const ViewedQuantity& first = view.at(name, head.value_or(0));
    chosen.push_back(&first);
    for (const ViewedQuantity& other : view.quantities)
      if (!head && &other != &first && other.is_named(name)) chosen.push_back(&other);
  }
  return chosen;
}

/// Maps, or curves over the queries, of some quantities of one attention. `head`: counted from 1; 0: their mean; empty:
/// all heads.
Finding finding_of(const AttentionView& view, const std::string& what, std::optional<std::int64_t> head) {
  Finding finding{.title = fmt::format("{}: {}", view.title(), what), .notes = {view.method}};
  for (const ViewedQuantity* each : chosen_quantities(view, what, head)) {
    const ViewedQuantity& quantity = *each;
    if (quantity.of_pairs) {
      for (std::int64_t h : heads_of(quantity, head))
        finding.tables.push_back(
            {spaced(quantity.name) + ", " + head_name(h), table_of_pairs(view, view.head(quantity, h))});
      finding.figures.push_back(figure_of_pairs(view, quantity, head));
      continue;
    }
    LineChart chart = head_curves(view, quantity, heads_of(quantity, head));
    chart.title = view.title() + ": " + chart.title;
    Columns columns;
    for (std::int64_t h : heads_of(quantity, head)) columns.emplace_back(head_name(h), view.head(quantity, h));
    finding.tables.push_back({spaced(quantity.name), table_of_tokens("query", view.queries, columns)});
    finding.figures.emplace_back(chart);
  }
  return finding;
}

/// The same quantities of one query: a column of a table and a curve over the keys for each of them and each head.
Finding finding_of_query(const AttentionView& view, const std::string& what, std::optional<std::int64_t> head,
                         std::size_t query) {
  require(query < view.queries.size(), "--query {}: the sentence has {} queries, counted from 0", query,
          view.queries.size());
  Finding finding{.title = fmt::format("{}, query {} “{}”", view.title(), query, view.queries[query]),
                  .notes = {view.method}};
  Columns columns;
  for (const ViewedQuantity* each : chosen_quantities(view, what, head)) {
    const ViewedQuantity& quantity = *each;
    require(quantity.of_pairs, "--query: '{}' has no numbers of keys", quantity.name);
    LineChart chart{.title = spaced(quantity.name), .x = {"key", picture_labels(view.keys)}};
    for (std::int64_t h : heads_of(quantity, head)) {
      const std::vector<double> all = view.head(quantity, h);
      const auto row = all.begin() + std::ptrdiff_t(query * view.keys.size());
      columns.emplace_back(spaced(quantity.name) + ", " + head_name(h),
                           std::vector<double>(row, row + std::ptrdiff_t(view.keys.size())));
      chart.series.push_back(curve_of(head_name(h), columns.back().second));
    }
    finding.figures.emplace_back(chart);
  }
  finding.tables = {{"", table_of_tokens("key", view.keys, columns, 4)}};
  return finding;
}

/// A section with the weights of every attention, and what its method computes, as pictures.
Finding section_of(const SentenceView& sentence, const std::string& title) {
  Finding section{.title = title, .notes = {sentence.text()}};
  for (const AttentionView& view : sentence.attentions)
    section.sections.push_back(
        {.title = "", .subtitle = view.title() + ": " + view.method, .figures = pictures_of(view, view.title())});
  return section;
}

/// The quantities that there are.
Table list_of(const SentenceView& sentence) {
  Table table({"attention", "method", "quantity", "first head", "heads", "a number for each"});
  for (const AttentionView& view : sentence.attentions)
    for (const ViewedQuantity& each : view.quantities)
      table.row({view.title(), view.method, each.name, each.first_head, each.heads,
                 each.of_pairs ? "query and key" : "query"});
  return table;
}

}  // namespace

Finding attention_of_sentence(Cli& cli) {
  const auto flags = std::make_shared<RunFlags>(
      cli, RunFlags::set | RunFlags::sentence | RunFlags::text | RunFlags::attention | RunFlags::head);
  std::string what = "weights";
  std::int64_t page_sentences = 5;
  std::optional<int> query;
  cli.option(
      "--what", what,
      "quantities, separated by commas: weights; scores, bias and logits (before the normaliser); seen; or what "
      "the method computes, such as mask, window, left_pointer, center, width, first_key. list prints the names");
  cli.option("--query", query, "show the keys of this query alone, which is counted from 0").at_least(0);
  cli.option("--page-sentences", page_sentences, "number of sentences of an html page").range(1, 1000);
  cli.parse();
  const SentenceView shown = flags->views()[0];
  Finding finding{.title = "Quantities of the attentions", .tables = {{"", list_of(shown)}}};
  if (what != "list")
    finding = query ? finding_of_query(shown.chosen(flags->choice), what, flags->chosen_head(), std::size_t(*query))
                    : finding_of(shown.chosen(flags->choice), what, flags->chosen_head());
  finding.notes.push_back(shown.text());
  finding.runs = {flags->run()};
  finding.sections_of_page = [=] {
    std::vector<Finding> sections{{.title = "All attentions",
                                   .notes = {"Rows are queries, columns are keys. Blue is positive, red is negative, "
                                             "grey is minus infinity: a key that the query does not see."}}};
    if (flags->has_own_text()) {
      sections.push_back(section_of(shown, "Own text"));
      return sections;
    }
    std::int64_t number = flags->first_sentence;
    for (const SentenceView& sentence : flags->views(std::size_t(page_sentences)))
      sections.push_back(section_of(sentence, fmt::format("Sentence {}", number++)));
    return sections;
  };
  return finding;
}

// ---- Decoding steps

namespace {

/// The names and mean-of-heads values of all quantities with a number for each query, and the size of a hard window.
Columns query_quantities(const AttentionView& view) {
  Columns found;
  for (const ViewedQuantity& quantity : view.quantities)
    if (!quantity.of_pairs) found.emplace_back(spaced(quantity.name), view.head(quantity, 0));
  const ViewedQuantity *first = view.find("first_key"), *last = view.find("last_key");
  if (!first || !last) return found;
  std::vector<double> from = view.head(*first, 0), size = view.head(*last, 0);
  for (std::size_t i = 0; i < size.size(); ++i) size[i] += 1 - from[i];
  found.emplace_back("window size", size);
  return found;
}

}  // namespace

Finding decoding_steps(Cli& cli) {
  RunFlags flags(cli, RunFlags::set | RunFlags::sentences | RunFlags::sentence | RunFlags::attention);
  cli.parse();
  const SentenceView shown = flags.views()[0];
  const AttentionView& view = shown.chosen(flags.choice);
  Columns columns = query_quantities(view);
  const std::vector<double> weights = view.head(view.quantities.front(), 0);
  std::vector<double> peaks;  // the most attended key
  for (auto row = weights.begin(); row < weights.end(); row += std::ptrdiff_t(view.keys.size()))
    peaks.push_back(double(std::max_element(row, row + std::ptrdiff_t(view.keys.size())) - row));
  columns.emplace_back("peak", peaks);
  const Samples means = samples_of(flags, 0, 0, "such steps", [&](const auto& each, std::int64_t) {
    Columns found;
    if (each.title() != view.title()) return found;
    for (const auto& [name, values] : query_quantities(each)) found.emplace_back(name, std::vector{mean(values)});
    found.emplace_back("source length", std::vector{double(each.keys.size())});
    return found;
  });
  Finding finding{.title = fmt::format("{}, step by step", view.title()),
                  .notes = {view.method, words_of(shown)},
                  .tables = {{"steps of the sentence", table_of_tokens("step", view.queries, columns)},
                             {fmt::format("means over {} sentences", means.sentences), table_of(means, 3)}},
                  .figures = {figure_of_pairs(view, view.quantities.front(), 0)},
                  .runs = {flags.run()}};
  const Axis steps{.label = "step", .tokens = picture_labels(view.queries)};
  LineChart positions{.title = "Positions among the keys", .x = steps};
  for (const auto& [name, values] : columns) {
    if (name == "focus" || name == "center" || name.ends_with(" key") || name == "peak")
      positions.series.push_back(curve_of(name, values, name == "peak"));
    else
      finding.figures.emplace_back(LineChart{.title = name, .x = steps, .series = {curve_of("", values)}});
  }
  finding.figures.emplace_back(positions);
  return finding;
}

// ---- Alignments

namespace {

/// The last attention over the source, which error rates are computed from. Throws Error if there is none.
const AttentionView& last_over_source(const SentenceView& sentence, const std::filesystem::path& run) {
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

}  // namespace

Finding alignments(Cli& cli) {
  RunFlags flags(cli, RunFlags::several | RunFlags::set | RunFlags::sentence);
  cli.parse();
  const Runs runs = flags.runs();
  const std::vector<std::string> titles = flags.names();
  Table table({"run", "links", "AER of the sentence", "AER of the test set"});
  Finding finding{.title = "Alignment by attention", .runs = runs};
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto run = flags.open(runs[r]);
    const SentenceView shown = run->sentence(std::size_t(flags.first_sentence));
    const AttentionView& view = last_over_source(shown, runs[r]);
    const std::vector<double> weights = view.head(view.quantities.front(), 0);
    const std::size_t I = view.queries.size(), J = view.keys.size();
    const bool are_words =
        split_words(shown.pair.source).size() + 1 == J && split_words(shown.pair.target).size() + 1 == I;
    const GoldAlignment gold = parse_alignment(shown.pair.alignment);
    std::vector<Cell> row{titles[r], {}, {}, {}};
    HeadMaps map{.title = fmt::format("{}: {}, mean of heads", titles[r], view.title()),
                 .queries = picture_labels(view.queries),
                 .keys = picture_labels(view.keys),
                 .heads = {{.values = weights}},
                 .low = 0.0,
                 .high = 1.0};
    if (are_words) {
      const std::set<Link> links = links_by_weights(weights, I, J);
      row[1] = alignment_text(links);
      if (!gold.possible.empty()) row[2] = Cell::number(alignment_error({&links, 1}, {&gold, 1}).value(), 3);
      for (const Link& link : gold.possible) map.heads[0].marked.emplace_back(int(link.target), int(link.source));
    }
    if (const auto result = load_result(runs[r]); result && !result->tests.empty())
      row[3] = Cell::number(value_of(result->tests.front(), "AER"), 3);
    table.row(row);
    if (!map.heads[0].marked.empty()) map.title += "; outlined: gold links";
    finding.figures.emplace_back(map);
    if (r + 1 < runs.size()) continue;
    finding.notes = {
        words_of(shown),
        gold.possible.empty()
            ? "There are no gold links for this sentence; those of a set are in SET.align beside its texts."
            : "Gold links: " + alignment_text(gold.sure) + "; they are outlined where tokens are words."};
  }
  finding.tables = {{"", table}};
  return finding;
}

}  // namespace fovea
