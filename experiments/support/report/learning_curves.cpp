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

/// The values of a curve by stretches of x. The key of a stretch is its end.
Points in_stretches(const std::vector<std::pair<double, double>>& curve, double stretch) {
  Points stretches;
  for (const auto& [x, y] : curve) stretches[std::ceil(x / stretch) * stretch].push_back(y);
  return stretches;
}

/// The logs of each curve's runs.
using Logs = std::vector<std::vector<std::vector<Json>>>;

LineChart score_curves(const std::vector<CurveRuns>& curves, const Logs& logs, const std::string& score) {
  LineChart chart{.title = "Development set", .x = {"updates"}, .y = {score}};
  chart.y.least = 0;
  if (!score.ends_with("perplexity")) chart.y.most = 100;
  for (std::size_t c = 0; c < curves.size(); ++c) {
    Points points;
    for (const std::vector<Json>& log : logs[c])
      for (const auto& [update, value] : curve(log, "dev." + score)) points[update].push_back(value);
    chart.series.push_back(mean_series(curves[c].name, points));
  }
  return chart;
}

/// The loss of training batches without label smoothing, averaged over stretches of updates and over runs.
LineChart loss_curves(const std::vector<CurveRuns>& curves, const Logs& logs) {
  LineChart chart{.title = "Training loss", .x = {"updates"}, .y = {"nats"}};
  chart.y.least = 0;
  constexpr double most_points = 25, between_lines = 10;
  double updates = 0;
  for (const auto& runs : logs)
    for (const std::vector<Json>& log : runs)
      for (const auto& [update, loss] : curve(log, "unsmoothed_loss")) updates = std::max(updates, update);
  const double stretch = std::max(std::ceil(updates / most_points), between_lines);
  for (std::size_t c = 0; c < curves.size(); ++c) {
    Points points;
    for (const std::vector<Json>& log : logs[c])
      for (const auto& [x, losses] : in_stretches(curve(log, "unsmoothed_loss"), stretch))
        points[x].push_back(mean(losses));
    chart.series.push_back(mean_series(curves[c].name, points));
  }
  return chart;
}

}  // namespace

void add_learning_curves(Report& report, const std::vector<CurveRuns>& curves, const std::string& dev_score) {
  Logs logs;
  for (const CurveRuns& each : curves) {
    logs.emplace_back();
    for (const std::filesystem::path& run : each.runs) logs.back().push_back(read_log(run / "log.jsonl"));
  }
  report.section("Learning curves").add(score_curves(curves, logs, dev_score)).add(loss_curves(curves, logs));
  const std::size_t seeds = curves.front().runs.size();
  if (seeds > 1) report.text(fmt::format("Means over {} seeds; the bands are their standard deviation.", seeds));
}

}  // namespace fovea
