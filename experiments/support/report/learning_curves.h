/// Learning curves from the logs of runs.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/report/html.h"

namespace fovea {

/// The logs of one curve's runs, one for each seed.
struct Curve {
  std::string name;
  std::vector<std::vector<Json>> logs;
};

/// Adds a section with the curves of the development scores and of the training loss (without label smoothing): the
/// means over each curve's runs. A band is their standard deviation.
void add_learning_curves(Report& report, const std::vector<Curve>& curves, const std::string& dev_score);

}  // namespace fovea
