/// The flags of programs with sequence models, and what can be refused before anything is trained.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/metrics/tokenization.h"
#include "experiments/support/sequence/pair_data.h"
#include "experiments/support/sequence/sequence_models.h"
#include "experiments/support/sequence/text_decoding.h"
#include "experiments/support/sequence/trained_model.h"
#include "experiments/support/training/training.h"

namespace fovea {

/// By what the loss of an update is divided. Auxiliary losses, which are means over sentences, are multiplied by it.
enum class LossPer {
  token,    ///< the mean loss of a token
  sentence  ///< the sum over a sentence's tokens, in the mean over sentences, as in Shu & Nakayama 2017, eq. 9
};

/// Everything that the flags of one row say.
struct SequenceOptions {
  PairDataOptions data;
  SequenceModelOptions model;
  TrainingOptions training;
  BatchOptions batches;
  double label_smoothing = 0;
  LossPer loss_per = LossPer::token;
  BeamFlags beam;
  std::string select = "loss";  ///< the score of the development set that selects the model
  std::string metrics;          ///< of decoded texts (scores_of), with commas
  Tokenization tokenization = Tokenization::mteval_13a;
  std::filesystem::path initial;  ///< --init; empty: none
  std::optional<int> spread;
  bool parameters = false;
  TrainedModelOptions trained;
  bool continues = false;  ///< a run is resumed, which needs no --init any more
  std::string data_help;   ///< the description of --data

  /// Sets defaults that suit generated texts. Presets are for others.
  SequenceOptions();
  void add_to(Cli& cli);

  std::vector<std::string> metric_names() const;
  bool decodes() const { return data.has_source; }
  bool selects_by_loss() const { return select == "loss" || select == "perplexity"; }  // one grows with the other
  /// Throws Error, with the flag, for flags that do not go together. Makes the model without memory for its parameters.
  void check() const;
  /// Throws Error for data that the model or the batches have no room for, and for an --init of other data.
  void check(const PairData& data) const;
  /// Prints a warning if the metrics cannot mean much for these data.
  void print_warnings(const PairData& data) const;
  /// A model for the data, with initial values; those of --init unless the run continues.
  std::unique_ptr<SequenceModel> make_model(const PairData& data, const Run& run) const;
  /// The trained model of --model.
  std::unique_ptr<SequenceModel> load_model(const PairTokenizers& tokenizers) const;
  /// Prints the parameters of each part of the model, with vocabularies of the sizes that the flags say.
  void print_parameters() const;

 private:
  bool begins() const { return !continues && trained.directory.empty(); }
  std::unique_ptr<SequenceModel> empty_model(const PairTokenizers& tokenizers) const;
};

}  // namespace fovea
