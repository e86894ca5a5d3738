/// Labelled texts as token numbers.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/data/classification.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/text/vocabulary.h"
#include "experiments/support/training/batches.h"

namespace fovea {

class LabelledData {
 public:
  ClassificationData texts;
  std::unique_ptr<Tokenizer> tokenizer;
  EncodedExamples train, dev;
  struct TestSet {
    std::string name;
    const std::vector<Example>& texts;
    EncodedExamples examples;
  };
  std::vector<TestSet> tests;  ///< the test part, then those of --also-test

  /// Prints a line about the data and one about the vocabulary. Learns the vocabulary and saves it in `directory`; if a
  /// run continues there, reads it from there. Throws Error if the data of a run have changed.
  LabelledData(ClassificationData texts, const TextOptions& options, const RunDirectory& directory);

  std::string description() const { return describe(texts); }
  /// Writes the vocabulary and the fingerprint of the data into a run's directory.
  void save(const std::filesystem::path& directory) const;
  /// Throws Error for a text that does not fit into a batch.
  void require_fitting(const BatchOptions& batches) const;
  std::int64_t classes() const { return std::ssize(texts.classes); }

 private:
  Json fingerprint() const;
};

/// The endless training batches of labelled texts.
class TextBatches : public TrainingBatches<TextBatch> {
 public:
  /// `examples` must outlive this object.
  TextBatches(const EncodedExamples& examples, const BatchOptions& options, std::uint64_t seed)
      : TrainingBatches(examples.lengths, options, seed,
                        [&examples](const PlannedBatch& plan) { return fill(plan, examples); }) {}
};

/// The entry of a part in data.json.
Json fingerprint_of(const std::vector<Example>& texts, const EncodedExamples& examples);

/// The classes of the data that a run was trained on.
std::vector<std::string> classes_of(const std::filesystem::path& run);

}  // namespace fovea
