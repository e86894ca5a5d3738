/// What the programs with sequence models share: training one or comparing several, testing them, the table, and
/// decoding new text with a trained model.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/data/pair_vocabulary.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/report/sequence_report.h"
#include "experiments/support/sequence/sequence_models.h"
#include "experiments/support/sequence/sequence_training.h"
#include "experiments/support/sequence/text_decoding.h"
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
  /// Does what the flags say: trains and tests on what `load` returns, and leaves a run directory; or decodes text.
  void run(Cli& cli, const std::function<std::unique_ptr<PairSource>()>& load);

  PairTextOptions text;
  SequenceModelOptions model;
  TrainingOptions training;
  BatchOptions batches;
  SequenceLossOptions loss;
  BeamFlags beam;
  std::int64_t block = 0;

 private:
  /// What a trained model says of the test part.
  struct Outcome;
  struct Compared;

  bool decodes() const { return !program_.metrics.empty(); }
  void check_flags(Cli& cli) const;
  void prepare(SequenceData& data, const PairSource& pairs, const RunDirectory& directory) const;
  std::unique_ptr<SequenceModel> make_model(const PairTokenizers& tokenizers) const;
  const char* dev_score_name() const;
  double dev_score(SequenceModel& model, const SequenceData& data) const;
  Outcome train_one(const SequenceData& data, const Comparison::Training& which) const;
  Outcome tested(SequenceModel& model, const SequenceData& data, const RunDirectory& directory) const;
  Table table_of(const std::vector<Compared>& compared) const;
  ReportedSequences reported(Cli& cli, const std::string& description, const SequenceData& data,
                             const std::vector<Compared>& compared) const;
  void decode_texts() const;
  void print_parameters() const;

  SequenceProgram program_;
  Comparison comparison_{"--attention"};
  RunDirectory::Options directory_;
  enum class Selection { loss, bleu, smoothed_bleu } selection_ = Selection::loss;
  std::filesystem::path initial_, trained_;
  std::string decoded_;
  int n_best_ = 1;
  bool parameters_ = false;
};

}  // namespace fovea
