/// What the programs that classify sentences share: training one attention or comparing several over seeds, the table,
/// the report, and labelling new text with a trained model.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/program/run_directory.h"
#include "experiments/support/report/classification_results.h"
#include "experiments/support/text/vocabulary.h"

namespace fovea {

class Cli;

class ClassificationExperiment {
 public:
  /// `program` names run directories.
  explicit ClassificationExperiment(std::string program) : program_(std::move(program)) {}

  void add_to(Cli& cli);

  /// Does what the flags say: trains and tests on what `load` returns, prints the table and leaves a run directory; or
  /// lists the attentions, or labels texts.
  void run(const Cli& cli, const std::function<ClassificationData()>& load) const;

  TrainingOptions training;
  BatchOptions batches;

 private:
  /// What must go well before the first update.
  struct Prepared {
    std::unique_ptr<Tokenizer> tokenizer;
    EncodedData encoded;
    Json fingerprint;  ///< of the data
  };

  std::vector<std::string> attentions() const;
  void check_flags() const;
  Prepared prepare(const ClassificationData& data, const RunDirectory& directory) const;
  ComparedAttention train_seeds(const std::string& attention, const RunDirectory& directory, const Json& configuration,
                                const ClassificationSetting& setting, const Prepared& prepared) const;
  void label_texts() const;

  std::string program_;
  EncoderModelOptions model_;
  TextOptions text_;
  RunDirectory::Options directory_;
  std::string compare_;
  int seeds_ = 1;
  bool list_attentions_ = false;
  std::string label_;
  std::filesystem::path trained_;
};

}  // namespace fovea
