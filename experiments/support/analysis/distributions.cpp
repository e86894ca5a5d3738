// Distributions over sentences: windows, the attention near a query, and where attentions look before and after
// training.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include "experiments/support/analysis/commands.h"
#include "experiments/support/metrics/attention_spread.h"
#include "experiments/support/metrics/statistics.h"

namespace fovea {

namespace {

using Values = std::vector<double>;

/// The series of this name, which is the last one or new.
Series& named(std::vector<Series>& all, const std::string& name) {
  if (all.empty() || all.back().name != name) all.push_back({.name = name});
  return all.back();
}

/// The quantities "center" and "width" of a head, as far as it has them.
Columns centers_and_widths(const AttentionView& view, std::int64_t head) {
  Columns found;
  for (const auto& [name, heading] : {std::pair("center", "center P"), std::pair("width", "width D")})
    if (const ViewedQuantity* quantity = view.find(name, head)) found.emplace_back(heading, view.head(*quantity, head));
  return found;
}

/// Turns series whose x are values into histograms with the same 20 bins: the outline of each bin's share in percent.
void make_histograms(std::vector<Series>& all) {
  constexpr int bins = 20;
  double largest = 0;
  for (const Series& one : all)
    for (double x : one.x) largest = std::max(largest, x);
  for (Series& one : all) {
    const Values values = std::exchange(one.x, {});
    std::array<double, bins> shares{};
    for (double x : values)
      shares[std::size_t(std::min(x / largest * bins, bins - 1.0))] += 100 / double(values.size());
    for (int bin = 0; bin < bins; ++bin)
      for (int end : {bin, bin + 1}) one.x.push_back(end * largest / bins), one.y.push_back(shares[std::size_t(bin)]);
  }
}

}  // namespace

Finding widths(Cli& cli) {
  RunFlags flags(cli, RunFlags::several | RunFlags::set | RunFlags::sentences);
  cli.parse();
  const Runs runs = flags.runs();
  const Samples samples = samples_of(flags, 1, every_head, "a center or a width", centers_and_widths);
  std::map<std::string, LineChart> points, shares;  // by layer: a point for each query, and a histogram of widths
  LineChart by_head{.title = "Mean width of each head", .x = {"head"}, .y = {"D, tokens"}};
  for (const HeadSample& sample : samples.heads) {
    const std::string layer = sample.place();
    const auto& [last, D] = sample.values.back();
    if (last != "width D") continue;
    Values& drawn = named(shares[layer].series, sample.run).x;
    drawn.insert(drawn.end(), D.begin(), D.end());
    Series& means = named(by_head.series, runs.size() > 1 ? sample.run + ", " + layer : layer);
    means.x.push_back(double(sample.head));
    means.y.push_back(mean(D));
    means.deviation.push_back(D.size() > 1 ? sample_standard_deviation(D) : 0);
    Series& cloud = named(points[layer].series, sample.run);
    constexpr std::size_t most_points = 150;  // of a head; of more every n-th is drawn
    const Values& P = sample.values.front().second;
    for (std::size_t k = 0; k < D.size() && sample.values.size() == 2; k += D.size() / most_points + 1)
      cloud.x.push_back(P[k]), cloud.y.push_back(D[k]);
  }
  Finding finding{.title = "Centers and widths of windows",
                  .notes = {fmt::format("Means and standard deviations over all queries of {} sentences, in tokens.",
                                        samples.sentences)},
                  .tables = {{"", table_of(samples, 2)}},
                  .runs = runs};
  for (auto& [layer, plot] : points) {
    plot.title = layer + ": centers and widths", plot.x = {"center P"}, plot.y = {"width D"}, plot.points = true;
    LineChart& histogram = shares[layer];
    histogram.title = layer + ": widths", histogram.x = {"width D, tokens"}, histogram.y = {"queries, %"};
    make_histograms(histogram.series);
    finding.figures.insert(finding.figures.end(), {plot, histogram});
  }
  if (!by_head.series.empty()) finding.figures.emplace_back(by_head);
  return finding;
}

namespace {

/// The percentage of one head (0: of the mean of all) within a distance, for one sentence.
double mass_within(const AttentionView& view, std::int64_t head, int distance) {
  const auto I = std::int64_t(view.queries.size()), J = std::int64_t(view.keys.size());
  const ViewedQuantity& weights = view.quantities.front();
  // the mean over heads of the shares, which for shares near the query's position is the share of the mean
  const Values values = head > 0 ? view.head(weights, head) : weights.values;
  const Tensor tensor = Tensor::from(values, {1, head > 0 ? 1 : weights.heads, I, J});
  return (view.place == Place::cross ? attention_near_peak(tensor, std::vector{I}, std::vector{J}, distance)
                                     : attention_within(tensor, std::vector{I}, distance))
      .front();
}

}  // namespace

Finding mass(Cli& cli) {
  RunFlags flags(cli, RunFlags::several | RunFlags::set | RunFlags::sentences);
  std::vector<int> distances{1, 2, 4};
  bool by_head = false;
  cli.option("--within", distances, "distances in tokens, separated by commas").at_least(0);
  cli.option("--by-head", by_head, "also show every head");
  cli.parse();
  const Runs runs = flags.runs();
  const Samples samples =
      samples_of(flags, 0, by_head ? every_head : 0, "weights", [&](const auto& view, std::int64_t head) {
        Columns shares;
        for (int distance : distances)
          shares.emplace_back(fmt::format("w = {}", distance), std::vector{mass_within(view, head, distance)});
        return shares;
      });
  LineChart chart{.title = "Attention near the query", .x = {"distance w, tokens"}, .y = {"% of the attention"}};
  for (const HeadSample& sample : samples.heads) {
    if (sample.head > 0) continue;
    const std::string name = sample.place() + ": " + sample.attention.method;
    Series& series = chart.series.emplace_back(Series{.name = runs.size() > 1 ? sample.run + ", " + name : name});
    series.x.assign(distances.begin(), distances.end());
    for (const auto& [heading, shares] : sample.values) series.y.push_back(mean(shares));
  }
  return {.title = "Attention within w tokens",
          .notes = {fmt::format("Percent of the weights on keys at most w tokens from the query's position; for cross, "
                                "from the most attended token. Means and standard deviations over {} sentences (Fan et "
                                "al. 2021, eq. 13).",
                                samples.sentences)},
          .tables = {{"", table_of(samples, 2)}},
          .figures = {chart},
          .runs = runs};
}

// ---- Before and after training: whether a method can still learn

namespace {

/// The number of keys that row i of an attention sees; rows are queries, head after head. In a decoder a query sees
/// the keys up to its own position, elsewhere all keys.
std::size_t visible_keys(const AttentionView& view, std::size_t i) {
  return view.place == Place::decoder ? i % view.queries.size() + 1 : view.keys.size();
}

/// Centres as a share of the last position that the query sees. Queries that see one key are left out.
Values center_shares(const AttentionView& view, const ViewedQuantity& centers) {
  Values shares;
  for (std::size_t k = 0; k < centers.values.size(); ++k)
    if (const std::size_t n = visible_keys(view, k); n > 1) shares.push_back(centers.values[k] / double(n - 1));
  return shares;
}

/// The entropy of each distribution over the keys, as a share of the largest one, log n. Rows of one key are left out.
Values entropy_shares(const AttentionView& view, const ViewedQuantity& pairs) {
  Values shares;
  const std::size_t J = view.keys.size();
  for (std::size_t row = 0; row * J < pairs.values.size(); ++row) {
    const Values p(pairs.values.begin() + std::ptrdiff_t(row * J), pairs.values.begin() + std::ptrdiff_t(row * J + J));
    double sum = 0, entropy = 0;
    for (double each : p) sum += each;
    for (double each : p)
      if (each > 0) entropy -= each / sum * std::log(each / sum);
    const std::size_t n = visible_keys(view, row);
    if (n > 1 && sum > 0) shares.push_back(entropy / std::log(double(n)));
  }
  return shares;
}

/// The entries of pairs that a query sees; a number for each query as it is.
Values visible_values(const AttentionView& view, const ViewedQuantity& quantity) {
  if (!quantity.of_pairs) return quantity.values;
  Values values;
  const std::size_t J = view.keys.size();
  for (std::size_t k = 0; k < quantity.values.size(); ++k)
    if (k % J < visible_keys(view, k / J)) values.push_back(quantity.values[k]);
  return values;
}

/// How a quantity is summed up. A number below `low` or above `high` is at the edge: its derivative with respect to the
/// parameters is nearly 0 there, or its window has a single key.
struct Measure {
  const char *quantity, *heading;
  Values (*values)(const AttentionView&, const ViewedQuantity&);
  double low, high;
};
constexpr Measure measures[] = {
    {"hidden", "mean |tanh| of the hidden layer", visible_values, -HUGE_VAL, 0.95},
    {"center", "centre, as a share of the last position", center_shares, 0.05, 0.95},
    {"width", "width, tokens", visible_values, 0.9, HUGE_VAL},
    {"span", "span, tokens", visible_values, 0.9, HUGE_VAL},
    {"gate", "gate", visible_values, 0.05, 0.95},
    {"mask", "mask", visible_values, 0.05, 0.95},
    {"forget_gate", "forget gate", visible_values, 0.05, HUGE_VAL},
    {"left_pointer", "entropy of the left pointer / log n", entropy_shares, 0.05, HUGE_VAL},
    {"right_pointer", "entropy of the right pointer / log n", entropy_shares, 0.05, HUGE_VAL},
    {"weights", "entropy of the weights / log n", entropy_shares, 0.05, HUGE_VAL},
};

/// The measures of all heads of an attention.
Columns measured(const AttentionView& view, std::int64_t) {
  Columns found;
  for (const Measure& measure : measures)
    if (const ViewedQuantity* quantity = view.find(measure.quantity))
      found.emplace_back(measure.heading, measure.values(view, *quantity));
  return found;
}

/// Appends a row with percentiles of the values, and the percentage of them that is at the edge.
void add_percentiles(Table& table, const HeadSample& sample, const char* parameters, const std::string& heading,
                     const Values& values) {
  const auto& measure = *std::ranges::find_if(measures, [&](const Measure& one) { return heading == one.heading; });
  const auto at_edge = std::ranges::count_if(values, [&](double x) { return x < measure.low || x > measure.high; });
  const AttentionView& at = sample.attention;
  std::vector<Cell> row{sample.run, name_of(at.place), at.layer, at.method, heading, parameters};
  for (double share : {0.1, 0.5, 0.9}) row.push_back(Cell::number(percentile(values, share), 3));
  row.push_back(Cell::number(100 * double(at_edge) / double(values.size()), 1));  // NaN without values
  table.row(row);
}

}  // namespace

Finding starts(Cli& cli) {
  RunFlags flags(cli, RunFlags::several | RunFlags::set | RunFlags::sentences);
  flags.most_sentences = 50;
  cli.parse();
  const auto samples = [&](bool are_initial) { return samples_of(flags, 0, 0, "weights", measured, are_initial); };
  const Samples initial = samples(true), trained = samples(false);
  Table table(
      {"run", "place", "layer", "attention", "quantity", "parameters", "10 %", "50 %", "90 %", "at the edge, %"});
  for (std::size_t a = 0; a < trained.heads.size(); ++a)
    for (std::size_t q = 0; q < trained.heads[a].values.size(); ++q) {
      const std::string& heading = trained.heads[a].values[q].first;
      add_percentiles(table, trained.heads[a], "initial", heading, initial.heads[a].values[q].second);
      add_percentiles(table, trained.heads[a], "trained", heading, trained.heads[a].values[q].second);
    }
  return {.title = "Where attentions look before and after training",
          .notes = {fmt::format(
              "Percentiles over all heads and queries of {} sentences, with the initial values of each run's seed and "
              "with its trained ones. At the edge are hidden units, centres, gates and masks whose sigmoid or tanh is "
              "saturated (beyond 0.95, or below 0.05 too), widths below 0.9 tokens, and distributions whose entropy is "
              "below 5 % of that of equal weights: a method whose numbers are there hardly learns any more.",
              trained.sentences)},
          .tables = {{"", table}},
          .runs = flags.runs()};
}

}  // namespace fovea
