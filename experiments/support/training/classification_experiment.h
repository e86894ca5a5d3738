/// What the programs that classify sentences share: training one model or comparing several over seeds, the table,
/// the report, and labelling new text with a trained model.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/program/run_directory.h"
#include "experiments/support/report/classification_results.h"
#include "experiments/support/text/vocabulary.h"
#include "experiments/support/training/comparison.h"

namespace fovea {

class Cli;

class ClassificationExperiment {
 public:
  /// `program` names run directories.
  explicit ClassificationExperiment(std::string program) : program_(std::move(program)) {}

  void add_to(Cli& cli);

  /// Does what the flags say: trains and tests on what `load` returns, prints the table and leaves a run directory; or
  /// lists the attentions, or labels texts.
  void run(Cli& cli, const std::function<ClassificationData()>& load);

  TrainingOptions training;
  BatchOptions batches;

 private:
  /// What must go well before the first update.
  struct Prepared {
    std::unique_ptr<Tokenizer> tokenizer;
    EncodedData encoded;
    Json fingerprint;  ///< of the data
  };

  void check_flags(Cli& cli) const;
  Prepared prepare(Cli& cli, const ClassificationData& data, const RunDirectory& directory) const;
  void label_texts() const;

  std::string program_;
  EncoderModelOptions model_;
  TextOptions text_;
  RunDirectory::Options directory_;
  Comparison comparison_{"--attention"};
  bool list_attentions_ = false;
  std::string label_;
  std::filesystem::path trained_;
};

}  // namespace fovea
