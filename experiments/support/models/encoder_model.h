/// The flags of an encoder, and the encoder they make.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "experiments/support/models/presets.h"
#include "experiments/support/models/transformer_flags.h"
#include "nn/encoder_classifier.h"

namespace fovea {

class Cli;

/// The defaults are the "tiny" Transformer of Nguyen et al. 2020, §5.3. Dropout applies to embeddings, attention
/// weights, hidden layers and the outputs of blocks.
struct EncoderModelOptions : TransformerFlags {
  PresetFlag preset;
  EncoderModelOptions() { attention = "global"; }

  void add_to(Cli& cli);
  /// Throws Error if the machine's memory is too small for the encoder with its gradients and Adam's state, and for the
  /// values that the layers keep for the backward pass of `tokens` tokens.
  void require_memory(std::int64_t tokens = 0) const;
  /// The encoder's sizes and dropout. Throws Error unless the heads divide the width.
  TransformerOptions encoder() const;
  /// The factory of the attentions that --attention describes.
  AttentionFactory factory() const { return flagged_attention("--attention", attention); }
  /// Makes a classifier with the attentions of `specification`.
  std::unique_ptr<EncoderClassifier> make(const std::string& specification, std::int64_t vocabulary,
                                          std::int64_t classes) const;
};

}  // namespace fovea
