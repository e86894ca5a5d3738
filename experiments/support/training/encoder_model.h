/// The flags of an encoder, and the encoder they make.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "experiments/support/training/presets.h"
#include "experiments/support/training/transformer_flags.h"
#include "nn/encoder_classifier.h"

namespace fovea {

class Cli;

/// Nguyen et al. 2020, §5.3: the "tiny" Transformer. Dropout is everywhere: embeddings, attention weights, inside and
/// after each block.
struct EncoderModelOptions : TransformerFlags {
  PresetFlag preset;
  EncoderModelOptions() { attention = "global"; }

  void add_to(Cli& cli);
  /// Throws Error where the machine cannot hold the encoder with its gradients and Adam's state, and what the layers
  /// keep of so many tokens.
  void require_memory(std::int64_t tokens = 0) const;
  /// The encoder's sizes and dropout. Throws Error unless the heads divide the width.
  TransformerOptions encoder() const;
  /// Makes the attentions.
  AttentionFactory factory() const { return flagged_attention("--attention", attention); }
  /// A classifier whose attentions are `specification`.
  std::unique_ptr<EncoderClassifier> make(const std::string& specification, std::int64_t vocabulary,
                                          std::int64_t classes) const;
};

}  // namespace fovea
