/// The flags of programs with sequence models, and the checks that precede training.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/data/pair_data.h"
#include "experiments/support/metrics/tokenization.h"
#include "experiments/support/models/sequence_models.h"
#include "experiments/support/models/text_decoding.h"
#include "experiments/support/models/trained_model.h"
#include "experiments/support/training/training.h"

namespace fovea {

/// The divisor of an update's loss. Auxiliary losses, which are means over sentences, are multiplied by it.
enum class LossPer {
  token,    ///< the mean loss of a token
  sentence  ///< the sum over a sentence's tokens, in the mean over sentences, as in Shu & Nakayama 2017, eq. 9
};

/// The values of all flags of one row.
struct SequenceOptions {
  PairDataOptions data;
  SequenceModelOptions model;
  TrainingOptions training;
  BatchOptions batches;
  double label_smoothing = 0;
  LossPer loss_per = LossPer::token;
  BeamFlags beam;
  std::string select = "loss";  ///< the score of the development set that selects the model
  std::string metrics;          ///< of decoded texts, separated by commas (scores_of)
  Tokenization tokenization = Tokenization::mteval_13a;
  std::filesystem::path initial;  ///< --init; empty: none
  std::vector<int> spread;        ///< distances at which the share of the attention is measured
  bool parameters = false;
  TrainedModelOptions trained;
  bool continues = false;  ///< a run is resumed, so that --init is not read again
  std::string data_help;   ///< the description of --data

  /// Sets defaults that suit generated texts; presets suit real ones.
  SequenceOptions();
  void add_to(Cli& cli);

  std::vector<std::string> metric_names() const;
  bool decodes() const { return data.has_source; }
  bool selects_by_loss() const { return select == "loss" || select == "perplexity"; }  // one grows with the other
  /// Throws Error, with the flag, for flags that contradict each other. Makes the model without memory for its
  /// parameters.
  void check() const;
  /// Throws Error for texts too long for the model or the batches, and for an --init run with another vocabulary.
  void check(const PairData& data) const;
  /// Prints a warning if the metrics cannot mean much for these data.
  void print_warnings(const PairData& data) const;
  /// Makes a model for the data with random initial values, or those of --init if the run does not continue.
  std::unique_ptr<SequenceModel> make_model(const PairData& data, const Run& run) const;
  /// Loads the trained model of --model, in evaluation mode.
  std::unique_ptr<SequenceModel> load_model(const PairTokenizers& tokenizers) const;
  /// Makes the model for the vocabulary sizes of the flags, without memory for its parameters. Throws Error without
  /// sizes.
  std::unique_ptr<SequenceModel> model_of_sizes() const;

 private:
  bool begins() const { return !continues && trained.directory.empty(); }
  std::unique_ptr<SequenceModel> empty_model(const PairTokenizers& tokenizers) const;
};

using NamedModels = std::vector<std::pair<std::string, std::unique_ptr<SequenceModel>>>;
/// Prints the numbers of parameters: of the parts of one model, or of several models with the difference to the first.
void print_parameters(const NamedModels& models);

/// Prints the numbers of parameters of the rows' models, for the vocabulary sizes of the flags.
template <class Experiment>
void print_parameters_of(const Experiment& experiment) {
  NamedModels models;
  experiment.for_rows(
      [&](const std::string& name, const SequenceOptions& row) { models.emplace_back(name, row.model_of_sizes()); });
  print_parameters(models);
}

}  // namespace fovea
