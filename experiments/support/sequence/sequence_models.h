/// The flags of a model of sequences, and the models they make.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/training/presets.h"
#include "experiments/support/training/transformer_flags.h"
#include "nn/recurrent_model.h"
#include "nn/transformer_model.h"

namespace fovea {

class Cli;

enum class Architecture { transformer, recurrent };
enum class Stacks { encoder, decoder, both };

/// The defaults are for generated texts. Attentions are specifications; an empty one is the architecture's plain one.
struct SequenceModelOptions : TransformerFlags {
  SequenceModelOptions();

  PresetFlag preset;
  Architecture architecture = Architecture::transformer;
  int encoder_layers = 0, decoder_layers = 0;  ///< 0: `layers`
  double attention_dropout = 0;

  std::string decoder_attention, cross_attention;
  std::string block_order = "attention > feed-forward";
  Stacks block_order_in = Stacks::both;

  // of Transformers
  double feed_forward_dropout = 0;
  bool final_norm = true;
  Activation activation = Activation::relu;
  Positions positions = Positions::sinusoidal;
  std::int64_t longest = 512;
  bool embedding_norm = false;
  Tied tied = Tied::all;

  // of recurrent models
  std::int64_t embedding_dim = 128, readout_dim = 0;
  QueryState query = QueryState::previous;
  bool bidirectional = true, input_feeding = true;

  void add_to(Cli& cli);

  /// Throws Error where so many copies of the parameters (of large matrices, at least) are more than the machine's
  /// memory: training keeps four, with gradients and Adam's state.
  void require_memory(std::int64_t vocabulary, int copies) const;

  /// The number of tokens that learned positions are there for; 0: any number.
  std::int64_t positions_limit() const {
    return architecture == Architecture::transformer && positions == Positions::learned ? longest : 0;
  }

  /// source_vocabulary 0: a language model, whose attention is `decoder_attention` or else `attention`. Throws Error,
  /// with the flag, for what does not go together.
  std::unique_ptr<SequenceModel> make(std::int64_t source_vocabulary, std::int64_t vocabulary) const;

 private:
  std::unique_ptr<SequenceModel> make_transformer(std::int64_t source_vocabulary, std::int64_t vocabulary) const;
  std::unique_ptr<SequenceModel> make_recurrent(std::int64_t source_vocabulary, std::int64_t vocabulary) const;
  TransformerOptions stack(int own_layers) const;
  SubLayers sub_layers(bool decoder, const std::string& own_attention, bool has_source) const;
};

/// The parts of a --block-order, between the >, without the spaces around them; those of C1 to C5 by their names.
std::vector<std::string> parts_of_order(const std::string& order);

/// Every part of the model that has parameters with their number, and the total: for --parameters.
std::string parameter_table(const Module& model);

}  // namespace fovea
