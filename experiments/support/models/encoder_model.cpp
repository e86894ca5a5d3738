#include "experiments/support/models/encoder_model.h"

#include "experiments/support/program/cli.h"
#include "tensor/support/machine_memory.h"

namespace fovea {

void EncoderModelOptions::add_to(Cli& cli) {
  cli.group("Model");
  cli.add(preset);
  add_sizes(cli, "embeddings, attention weights, hidden layers and outputs of blocks", "see --list-attentions");
  add_blocks(cli);
}

void EncoderModelOptions::require_memory(std::int64_t tokens) const {
  // A lower bound. Each layer has four projections of the states and two of the feed-forward block. It keeps the inputs
  // of its two norms, queries, keys, values, the attention's result, and the hidden layer of the feed-forward block.
  double d = static_cast<double>(model_dim), f = static_cast<double>(feed_forward_dim);
  double parameters = layers * d * (4 * d + 2 * f), kept = static_cast<double>(tokens) * layers * (6 * d + f);
  double needed = (parameters * 4 + kept) * sizeof(float), there = static_cast<double>(machine_memory().total);
  constexpr double gibibyte = 1 << 30;
  require(needed <= there,
          "--model-dim {}, --feed-forward-dim {}, --layers {}{}: {:.1f} million parameters with their gradients and "
          "Adam's state, and the values kept for the backward pass, take {:.1f} GiB; this machine has {:.1f} GiB",
          model_dim, feed_forward_dim, layers, tokens ? fmt::format(", --batch-tokens {}", tokens) : "",
          parameters / 1e6, needed / gibibyte, there / gibibyte);
}

TransformerOptions EncoderModelOptions::encoder() const {
  require_heads();
  return {.layers = layers,
          .model_dim = model_dim,
          .heads = heads,
          .feed_forward_dim = feed_forward_dim,
          .norm = norm,
          .dropout = dropout,
          .attention_dropout = dropout,
          .feed_forward_dropout = dropout,
          .recompute = recompute};
}

std::unique_ptr<EncoderClassifier> EncoderModelOptions::make(const std::string& specification, std::int64_t vocabulary,
                                                             std::int64_t classes) const {
  const EncoderClassifierOptions options{.vocabulary = vocabulary, .classes = classes, .encoder = encoder()};
  return std::make_unique<EncoderClassifier>(options, flagged_attention("--attention", specification));
}

}  // namespace fovea
