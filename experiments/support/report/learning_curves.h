/// Learning curves from what runs leave in metrics.csv.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/report/html.h"

namespace fovea {

/// The runs of one curve, a seed each: their directories.
struct CurveRuns {
  std::string name;
  std::vector<std::filesystem::path> runs;
};

/// A column of the evaluations over the updates, the mean of each curve's runs; a band is the deviation.
LineChart score_curves(const std::vector<CurveRuns>& curves, const std::string& column, const std::string& title,
                       const Axis& y);

/// The loss of training batches, averaged over stretches of updates and over runs.
LineChart loss_curves(const std::vector<CurveRuns>& curves);

/// Both, and what the bands are.
void add_learning_curves(Report& report, const std::vector<CurveRuns>& curves, const LineChart& scores);

}  // namespace fovea
