/// Learning curves from the logs of runs.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/report/html.h"

namespace fovea {

/// The runs of one curve: a directory for each seed.
struct CurveRuns {
  std::string name;
  std::vector<std::filesystem::path> runs;
};

/// Adds a section with the curves of the development scores and of the training loss (without label smoothing): the
/// means over each curve's runs. A band is their standard deviation.
void add_learning_curves(Report& report, const std::vector<CurveRuns>& curves, const std::string& dev_score);

}  // namespace fovea
