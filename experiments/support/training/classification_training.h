/// Training one classifier, and what it leaves in its run directory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/data/classification.h"
#include "experiments/support/training/batches.h"
#include "experiments/support/training/encoder_model.h"
#include "experiments/support/training/training.h"

namespace fovea {

/// The three parts as token numbers.
struct EncodedData {
  EncodedExamples train, dev, test;
};

EncodedData encode(const ClassificationData& data, const Tokenizer& tokenizer, std::int64_t max_length);

/// What tells one data set from another: the classes, and each part's size and a hash of its tokens and labels.
Json fingerprint(const ClassificationData& data, const EncodedData& encoded);

/// The class that the model gives each example.
std::vector<int> predict(EncoderClassifier& model, const EncodedExamples& examples, const BatchOptions& options);

/// What a finished run says of itself, in result.json.
struct Outcome {
  std::string attention;
  std::uint64_t seed = 0;
  std::int64_t parameters = 0, updates = 0;
  double steps_per_second = 0;
  double dev_accuracy = 0;  ///< in percent, of the best evaluation
  std::string correct;      ///< '1' or '0' for each test example

  double accuracy() const;  ///< on the test examples, in percent
};

/// What a run is made of, besides its seed.
struct ClassificationSetting {
  const ClassificationData& data;
  const EncodedData& encoded;
  int vocabulary;  ///< size
  const EncoderModelOptions& model;
  const BatchOptions& batches;
  const TrainingOptions& training;
};

/// The classes of the test examples, one a line: text, gold, predicted.
inline constexpr const char* hypotheses_file = "hypotheses.tsv";

/// Trains until the end, tests the best model, and leaves model.json, hypotheses.tsv and result.json besides what
/// train() writes. A run that has both already is not repeated.
Outcome train_classifier(const ClassificationSetting& setting, std::uint64_t seed, const TrainingRun& run);

/// The best model of a run, for evaluation, with its classes.
struct TrainedClassifier {
  std::unique_ptr<EncoderClassifier> model;
  std::vector<std::string> classes;
};

/// Throws Error where the directory has no trained model, or `options` are not its own.
TrainedClassifier load_classifier(const std::filesystem::path& directory, const EncoderModelOptions& options);

}  // namespace fovea
