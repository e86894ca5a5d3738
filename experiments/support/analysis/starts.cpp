// Where and how wide attentions look before training and after it: whether a method can still learn.
#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/core.h>

#include "experiments/support/analysis/commands.h"
#include "experiments/support/analysis/finding_parts.h"
#include "experiments/support/metrics/statistics.h"

namespace fovea {

namespace {

using Values = std::vector<double>;

/// The number of keys that query i sees in a sentence of its own.
double visible_keys(const AttentionView& view, std::size_t i) {
  return static_cast<double>(view.place == Place::decoder ? i + 1 : view.keys.size());
}

/// Centres as a share of the last position that the query sees. Queries that see one key are left out.
Values center_shares(const AttentionView& view, const ViewedQuantity& centers) {
  Values shares;
  const std::size_t I = view.queries.size();
  for (std::size_t k = 0; k < centers.values.size(); ++k)
    if (const double n = visible_keys(view, k % I); n > 1) shares.push_back(centers.values[k] / (n - 1));
  return shares;
}

/// The entropy of each distribution over the keys, as a share of the largest one, log n. Rows of one key are left out.
Values entropy_shares(const AttentionView& view, const ViewedQuantity& pairs) {
  Values shares;
  const std::size_t I = view.queries.size(), J = view.keys.size();
  for (std::size_t row = 0; row * J < pairs.values.size(); ++row) {
    const double n = visible_keys(view, row % I);
    double sum = 0, entropy = 0;
    for (std::size_t j = 0; j < J; ++j) sum += pairs.values[row * J + j];
    for (std::size_t j = 0; j < J; ++j)
      if (const double p = pairs.values[row * J + j] / sum; p > 0) entropy -= p * std::log(p);
    if (n > 1 && sum > 0) shares.push_back(entropy / std::log(n));
  }
  return shares;
}

/// The entries of pairs that a query sees; a number for each query as it is.
Values visible_values(const AttentionView& view, const ViewedQuantity& quantity) {
  if (!quantity.of_pairs || view.place != Place::decoder) return quantity.values;
  Values values;
  const std::size_t I = view.queries.size(), J = view.keys.size();
  for (std::size_t k = 0; k < quantity.values.size(); ++k)
    if (k % J <= k / J % I) values.push_back(quantity.values[k]);
  return values;
}

/// How a quantity is summed up. A number is at the edge if its derivative with respect to the parameters is nearly 0
/// there, or if its window has a single key.
struct Measure {
  const char *quantity, *heading;
  Values (*values)(const AttentionView&, const ViewedQuantity&);
  bool (*at_edge)(double);
};

bool near_0_or_1(double x) { return x < 0.05 || x > 0.95; }
bool near_0(double x) { return x < 0.05; }
bool near_1(double x) { return x > 0.95; }
bool below_a_token(double x) { return x < 0.9; }

constexpr Measure measures[] = {
    {"hidden", "mean |tanh| of the hidden layer", visible_values, near_1},
    {"center", "centre, as a share of the last position", center_shares, near_0_or_1},
    {"width", "width, tokens", visible_values, below_a_token},
    {"span", "span, tokens", visible_values, below_a_token},
    {"gate", "gate", visible_values, near_0_or_1},
    {"mask", "mask", visible_values, near_0_or_1},
    {"forget_gate", "forget gate", visible_values, near_0},
    {"left_pointer", "entropy of the left pointer / log n", entropy_shares, near_0},
    {"right_pointer", "entropy of the right pointer / log n", entropy_shares, near_0},
    {"weights", "entropy of the weights / log n", entropy_shares, near_0},
};

/// The values of one quantity of one attention, over all heads, queries and sentences.
struct Distribution {
  std::string run;
  AttentionView attention;  ///< without tokens and quantities
  const Measure* measure = nullptr;
  Values initial, trained;
};

std::vector<Cell> cells_of(const Distribution& of, const Values& values) {
  if (values.empty()) return {{}, {}, {}, {}};
  const auto at_edge = std::count_if(values.begin(), values.end(), of.measure->at_edge);
  return {Cell::number(percentile(values, 0.1), 3), Cell::number(percentile(values, 0.5), 3),
          Cell::number(percentile(values, 0.9), 3),
          Cell::number(100 * static_cast<double>(at_edge) / static_cast<double>(values.size()), 1)};
}

using Key = std::tuple<Place, int, int, const Measure*>;

void collect(AnalyzedRun& run, std::size_t sentences, Values Distribution::*values,
             std::map<Key, Distribution>& found) {
  for (std::size_t k = 0; k < sentences; ++k)
    for (const AttentionView& view : run.sentence(k).attentions)
      for (const Measure& measure : measures)
        if (const ViewedQuantity* quantity = view.find(measure.quantity)) {
          Distribution& of = found[{view.place, view.layer, view.number, &measure}];
          of.attention = {view.place, view.layer, view.number, view.method};
          of.measure = &measure;
          const Values more = measure.values(view, *quantity);
          (of.*values).insert((of.*values).end(), more.begin(), more.end());
        }
}

}  // namespace

Finding starts(Cli& cli) {
  RunFlags flags(cli, true);
  flags.most_sentences = 50;
  flags.add_sentences(cli);
  cli.parse();
  const Runs runs = flags.all();
  const std::vector<std::string> names = flags.names();
  std::vector<std::string> headings{"run", "place", "layer", "attention", "quantity"};
  for (const char* when : {"initial", "trained"})
    for (const char* what : {"10 %", "50 %", "90 %", "at the edge, %"})
      headings.push_back(fmt::format("{} {}", when, what));
  Table table(headings);
  std::size_t sentences = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto run = AnalyzedRun::open(runs[r], flags.part);
    sentences = run->size();
    if (flags.most_sentences > 0) sentences = std::min(sentences, static_cast<std::size_t>(flags.most_sentences));
    std::map<Key, Distribution> found;
    collect(*run, sentences, &Distribution::trained, found);
    run->restart();
    collect(*run, sentences, &Distribution::initial, found);
    for (const auto& [key, of] : found) {
      std::vector<Cell> row{names[r], name_of(of.attention.place), of.attention.layer, of.attention.method,
                            of.measure->heading};
      for (const Values& values : {of.initial, of.trained})
        for (const Cell& cell : cells_of(of, values)) row.push_back(cell);
      table.row(row);
    }
  }
  return {.title = "Where attentions look before and after training",
          .notes = {fmt::format(
              "Percentiles over all heads and queries of {} sentences, with the initial values of each run's seed and "
              "with its trained ones. At the edge are hidden units, centres, gates and masks whose sigmoid or tanh is "
              "saturated (beyond 0.95, or below 0.05 too), widths below 0.9 tokens, and distributions whose entropy is "
              "below 5 % of that of equal weights: a method whose numbers are there hardly learns any more.",
              sentences)},
          .tables = {{"", table}},
          .runs = runs};
}

}  // namespace fovea
