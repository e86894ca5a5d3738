#include "experiments/support/report/learning_curves.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/program/csv.h"

namespace fovea {

namespace {

using Points = std::map<double, std::vector<double>>;  ///< x → the y of each run that has it

/// Means over the runs, with their deviation where every point has several.
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

/// A run's points by stretches of x, each called after its end.
Points in_stretches(const std::pair<std::vector<double>, std::vector<double>>& curve, double stretch) {
  Points stretches;
  for (std::size_t k = 0; k < curve.first.size(); ++k)
    stretches[std::ceil(curve.first[k] / stretch) * stretch].push_back(curve.second[k]);
  return stretches;
}

std::pair<std::vector<double>, std::vector<double>> curve_of(const std::filesystem::path& run,
                                                             const std::string& column) {
  return read_metrics(run / "metrics.csv").curve("update", column);
}

}  // namespace

LineChart score_curves(const std::vector<CurveRuns>& curves, const std::string& column, const std::string& title,
                       const Axis& y) {
  LineChart chart{.title = title, .x = {"updates"}, .y = y};
  for (const CurveRuns& each : curves) {
    Points points;
    for (const std::filesystem::path& run : each.runs) {
      auto [updates, scores] = curve_of(run, column);
      for (std::size_t k = 0; k < updates.size(); ++k) points[updates[k]].push_back(scores[k]);
    }
    chart.series.push_back(mean_series(each.name, points));
  }
  return chart;
}

LineChart loss_curves(const std::vector<CurveRuns>& curves) {
  LineChart chart{.title = "Training loss", .x = {"updates"}, .y = {"nats"}};
  constexpr double most_points = 25, between_rows = 10;
  double updates = 0;
  for (const CurveRuns& each : curves) {
    for (const std::filesystem::path& run : each.runs)
      for (double update : curve_of(run, "loss").first) updates = std::max(updates, update);
  }
  double stretch = std::max(std::ceil(updates / most_points), between_rows);
  for (const CurveRuns& each : curves) {
    Points points;
    for (const std::filesystem::path& run : each.runs) {
      for (const auto& [x, losses] : in_stretches(curve_of(run, "loss"), stretch)) points[x].push_back(mean(losses));
    }
    chart.series.push_back(mean_series(each.name, points));
  }
  return chart;
}

void add_learning_curves(Report& report, const std::vector<CurveRuns>& curves, const LineChart& scores) {
  report.section("Learning curves").add(scores).add(loss_curves(curves));
  std::size_t seeds = curves.front().runs.size();
  if (seeds > 1) report.text(fmt::format("Means over {} seeds; the bands are their standard deviation.", seeds));
}

}  // namespace fovea
