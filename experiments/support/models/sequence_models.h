/// The flags of sequence models, and the models that they make.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/models/encoder_model.h"
#include "nn/recurrent_model.h"
#include "nn/transformer_model.h"

namespace fovea {

class Cli;

enum class Architecture { transformer, recurrent };

/// A sub-layer of a layer: feed-forward, or an attention by its specification.
struct SpecifiedSubLayer {
  SubLayer::Kind kind = SubLayer::Kind::feed_forward;
  std::string specification = {};
  const char* flag = "";  ///< that has the specification

  /// "feed-forward", "gaussian", "source: global"
  std::string text() const;
};

enum class Stacks { encoder, decoder, both };

/// The defaults are for generated texts. Attentions are specifications; an empty one is the architecture's plain one.
struct SequenceModelOptions : TransformerFlags {
  SequenceModelOptions();

  std::string preset;  ///< --preset
  Architecture architecture = Architecture::transformer;
  int encoder_layers = 0, decoder_layers = 0;  ///< 0: `layers`

  std::string decoder_attention, cross_attention;
  std::string block_order = "attention > feed-forward";
  Stacks block_order_in = Stacks::both;

  // of Transformers
  Tied tied = Tied::all;
  bool output_bias = false;

  // of recurrent models
  std::int64_t embedding_dim = 128, readout_dim = 0;
  QueryState query = QueryState::previous;
  bool bidirectional = true, input_feeding = true;

  void add_to(Cli& cli);

  /// Throws Error if the machine's memory is too small for `copies` copies of the parameters. Training keeps four:
  /// parameters, gradients and Adam's two moments. Only the large matrices are counted.
  void require_memory(std::int64_t vocabulary, int copies) const;

  /// The number of tokens that have learned positions; 0: any number.
  std::int64_t positions_limit() const {
    return architecture == Architecture::transformer && positions == Positions::learned ? longest : 0;
  }

  /// Makes the model; with source_vocabulary 0 a language model, whose attention is `decoder_attention` or, if that is
  /// empty, `attention`. Throws Error, with the flag, for options that contradict each other.
  std::unique_ptr<SequenceModel> make(std::int64_t source_vocabulary, std::int64_t vocabulary) const;

  /// The sub-layers of a layer of the encoder or the decoder, in order; none for a stack that the model does not have.
  /// A recurrent model has one, the attention of its decoder.
  std::vector<SpecifiedSubLayer> sub_layers(Place stack, bool has_source) const;

 private:
  std::unique_ptr<SequenceModel> make_transformer(std::int64_t source_vocabulary, std::int64_t vocabulary) const;
  std::unique_ptr<SequenceModel> make_recurrent(std::int64_t source_vocabulary, std::int64_t vocabulary) const;
  TransformerOptions stack(int own_layers) const;
};

/// A table for --parameters: the number of parameters of every part of the model, and the total.
std::string parameter_table(const Module& model);

}  // namespace fovea
