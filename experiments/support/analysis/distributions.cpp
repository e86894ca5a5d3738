// Distributions over sentences: windows, and the attention near a query.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include "experiments/support/analysis/commands.h"
#include "experiments/support/analysis/run_flags.h"
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

/// The quantities "center" and "width" of a head, as far as the attention has them.
Columns centers_and_widths(const AttentionView& view, std::int64_t head) {
  Columns found;
  for (const auto& [name, heading] : {std::pair("center", "center P"), std::pair("width", "width D")})
    if (const ViewedQuantity* quantity = view.find(name)) found.emplace_back(heading, view.head(*quantity, head));
  return found;
}

}  // namespace

Finding widths(Cli& cli) {
  RunFlags flags(cli, RunFlags::several | RunFlags::set | RunFlags::sentences);
  cli.parse();
  const Runs runs = flags.runs();
  const Samples samples = samples_of(flags, 1, every_head, "a center or a width", centers_and_widths);
  std::map<std::string, LineChart> points, shares;  // by layer: a point for each query, and how often widths occur
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
    LineChart& curves = shares[layer];
    curves.title = layer + ": widths", curves.x = {"width D, tokens"}, curves.y = {"queries with less, %"};
    for (Series& series : curves.series) {
      std::vector<double> percentiles;
      for (int percent = 0; percent <= 100; percent += 2) {
        series.y.push_back(percent);
        percentiles.push_back(percentile(series.x, percent / 100.0));
      }
      series.x = percentiles;
    }
    finding.figures.insert(finding.figures.end(), {plot, curves});
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

}  // namespace fovea
