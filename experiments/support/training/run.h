/// One training of an experiment: a row of the comparison with one seed.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "experiments/support/program/run_directory.h"
#include "experiments/support/record/record.h"

namespace fovea {

struct Run {
  std::string row = {};    ///< title of the row: "gaussian"
  std::string trial = {};  ///< values of a --search: "rate=0.001"; empty without one
  std::uint64_t seed = 1;
  Json configuration = {};  ///< every option of this run; a checkpoint with another one is refused
  /// The words after --resume in the command that continues the run: a directory, and --only if it was given.
  std::filesystem::path resume = {};
  std::int64_t number = 1, runs = 1;                   ///< run `number` of the `runs` that this process makes
  double seconds_of_others = 0;                        ///< estimated duration of the runs after this one; 0: unknown
  std::shared_ptr<const RunDirectory> directory = {};  ///< null: a trained model is tested, and nothing is kept

  /// "gaussian rate=0.001 seed 1"
  std::string title() const { return row + (trial.empty() ? "" : " " + trial) + " seed " + std::to_string(seed); }
};

}  // namespace fovea
