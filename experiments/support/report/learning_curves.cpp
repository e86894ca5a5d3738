#include "experiments/support/report/learning_curves.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/program/run_log.h"

namespace fovea {

namespace {

using Points = std::map<double, std::vector<double>>;  ///< x → the y of each run that has it

/// The means over the runs, with standard deviations if every point has several values.
Series mean_series(const std::string& name, const Points& points) {
  Series series{.name = name};
  bool has_deviation = !points.empty();
  for (const auto& [x, y] : points) {
    series.x.push_back(x);
    series.y.push_back(mean(y));
    series.deviation.push_back(sample_standard_deviation(y));
    has_deviation = has_deviation && y.size() > 1;
  }
  if (!has_deviation) series.deviation.clear();
  return series;
}

/// The mean curve of each name; points_of(log) are those of one run.
template <class PointsOf>
void add_series(LineChart& chart, const std::vector<Curve>& curves, const PointsOf& points_of) {
  for (const Curve& each : curves) {
    Points points;
    for (const std::vector<Json>& log : each.logs)
      for (const auto& [x, y] : points_of(log)) points[x].push_back(y);
    chart.series.push_back(mean_series(each.name, points));
  }
}

/// The loss of training batches without label smoothing, averaged over stretches of updates.
std::vector<std::pair<double, double>> in_stretches(const std::vector<Json>& log, double stretch) {
  Points stretches;  // by their ends
  for (const auto& [x, y] : curve(log, "unsmoothed_loss")) stretches[std::ceil(x / stretch) * stretch].push_back(y);
  std::vector<std::pair<double, double>> means;
  for (const auto& [x, y] : stretches) means.emplace_back(x, mean(y));
  return means;
}

}  // namespace

void add_learning_curves(Report& report, const std::vector<Curve>& curves, const std::string& dev_score) {
  LineChart scores{.title = "Development set", .x = {"updates"}, .y = {dev_score}};
  scores.y.least = 0;
  if (!dev_score.ends_with("perplexity")) scores.y.most = 100;
  add_series(scores, curves, [&](const std::vector<Json>& log) { return curve(log, "dev." + dev_score); });
  LineChart losses{.title = "Training loss", .x = {"updates"}, .y = {"nats"}};
  losses.y.least = 0;
  constexpr double most_points = 25, between_lines = 10;
  double updates = 0;
  for (const Curve& each : curves)
    for (const std::vector<Json>& log : each.logs)
      for (const auto& [update, loss] : curve(log, "unsmoothed_loss")) updates = std::max(updates, update);
  const double stretch = std::max(std::ceil(updates / most_points), between_lines);
  add_series(losses, curves, [&](const std::vector<Json>& log) { return in_stretches(log, stretch); });
  report.section("Learning curves").add(scores).add(losses);
  const std::size_t seeds = curves.front().logs.size();
  if (seeds > 1) report.text(fmt::format("Means over {} seeds; the bands are their standard deviation.", seeds));
}

}  // namespace fovea
