/// The flags of programs that classify texts, and tests and uses of trained classifiers.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/data/labelled_texts.h"
#include "experiments/support/data/pair_data.h"
#include "experiments/support/models/encoder_model.h"
#include "experiments/support/record/record.h"
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
  std::filesystem::path initial;  ///< --init; empty: none
  std::int64_t average = 0;       ///< --average-kept
  bool continues = false;         ///< a run is resumed, so that --init is not read again

  void add_to(Cli& cli);
  /// Throws Error, with the flag, for flags that contradict each other.
  void check() const;
  /// Throws Error for texts too long for the batches, or for the model's positions, and for an --init that does not
  /// fit.
  void check(const PairData& data) const;
  /// Makes a model for the data with random initial values, or those of --init if the run does not continue.
  std::unique_ptr<EncoderClassifier> make_model(const PairData& data, const Run& run) const;

 private:
  bool begins_with_given() const { return !initial.empty() && !continues && trained.empty(); }
  std::unique_ptr<EncoderClassifier> initial_model(const PairData& data, std::uint64_t seed, bool begins) const;
};

/// The percentage of texts whose most probable class is their label.
double accuracy(EncoderClassifier& model, const EncodedPairs& texts, const BatchOptions& batches);

/// Tests the model on the test sets and writes pictures of its attentions into the run's directory.
RunResult test_model(EncoderClassifier& model, const PairData& data, const ClassificationOptions& options,
                     const Run& run);

/// Prints the most probable class of each text in the file --label, with --probabilities also the probabilities of all
/// classes. Every line or record is one text; a blank line is a text without words. `columns` are those of the
/// training (text and label).
void label_texts(const ClassificationOptions& options, const std::string& columns = automatic_columns);

}  // namespace fovea
