/// The flags of programs that classify texts, and the checks that precede training.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "experiments/support/data/pair_data.h"
#include "experiments/support/models/encoder_model.h"
#include "experiments/support/training/training.h"

namespace fovea {

/// The values of all flags of one row except those of the data.
struct ClassificationOptions {
  TextOptions text;
  EncoderModelOptions model;
  TrainingOptions training;
  BatchOptions batches;
  bool probabilities = false;
  std::string label;              ///< --label: the file whose lines are labelled; empty: none
  std::filesystem::path trained;  ///< --model
  std::int64_t average = 0;       ///< --average-kept

  void add_to(Cli& cli);
  /// Throws Error, with the flag, for flags that contradict each other.
  void check() const;
  /// Makes a model for the data with random initial values.
  std::unique_ptr<EncoderClassifier> make_model(const PairData& data, std::uint64_t seed) const;
};

}  // namespace fovea
