/// What the programs with sequence models share: training one or comparing several, testing them, and using what is
/// trained.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/data/pair_vocabulary.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/report/sequence_report.h"
#include "experiments/support/sequence/sequence_models.h"
#include "experiments/support/sequence/sequence_results.h"
#include "experiments/support/sequence/sequence_training.h"
#include "experiments/support/sequence/text_decoding.h"
#include "experiments/support/sequence/trained_model.h"
#include "experiments/support/training/comparison.h"

namespace fovea {

/// What a program is about, beside where its pairs come from.
struct SequenceProgram {
  std::string name;                  ///< of the program and its run directories
  std::vector<std::string> metrics;  ///< of decoded test texts (text_metrics.h), the first is tested; none: no decoding
  std::string about = {}, data = {};  ///< of the program and of --data, for --help
  std::function<std::unique_ptr<PairSource>(const std::string& specification)> generate = {};  ///< of generated[:...]
};

/// main() of such a program: its pairs are generated, or a ParallelCorpus.
int run_sequence_program(int argc, const char* const* argv, const SequenceProgram& program);

class SequenceExperiment {
 public:
  explicit SequenceExperiment(SequenceProgram program);

  void add_to(Cli& cli);
  /// Does what the flags say: trains and tests on what `load` returns, and leaves a run directory; or uses a trained
  /// model. `load(whether it is trained on)`
  using Load = std::function<std::unique_ptr<PairSource>(bool trains)>;
  void run(Cli& cli, const Load& load);

  PairTextOptions text;
  SequenceModelOptions model;
  TrainingOptions training;
  BatchOptions batches;
  SequenceLossOptions loss;
  BeamFlags beam;
  std::int64_t block = 0;

 private:
  bool decodes() const { return !program_.metrics.empty(); }
  bool begins() const { return trained_.directory.empty() && directory_.resume.empty(); }
  void check_flags(Cli& cli) const;
  void check_with_data(Cli& cli, const SequenceData& data) const;
  void prepare(SequenceData& data, const PairSource& pairs, const RunDirectory& directory) const;
  std::unique_ptr<SequenceModel> make_model(const PairTokenizers& tokenizers) const;
  const char* dev_score_name() const;
  double dev_score(SequenceModel& model, const SequenceData& data) const;
  SequenceTest tested(SequenceModel& model, const SequenceData& data, const RunDirectory* directory,
                      std::string when_stopped) const;
  SequenceOutcome train_one(const SequenceData& data, const Comparison::Training& which) const;
  ReportedSequences reported(Cli& cli, const std::string& description, const SequenceData& data,
                             const std::vector<ComparedModel>& compared) const;
  void train_all(Cli& cli, const Load& load);
  void evaluate(Cli& cli, const Load& load) const;
  void use_trained(Use use) const;
  void print_parameters() const;

  SequenceProgram program_;
  Comparison comparison_{"--attention"};
  RunDirectory::Options directory_;
  enum class Selection { loss, bleu, smoothed_bleu } selection_ = Selection::loss;
  std::filesystem::path initial_;
  TrainedModelOptions trained_;
  std::optional<int> spread_;
  bool parameters_ = false;
};

}  // namespace fovea
