#include "experiments/support/training/encoder_model.h"

#include "attention/registry.h"
#include "experiments/support/program/program.h"
#include "tensor/machine_memory.h"

namespace fovea {

void EncoderModelOptions::add_to(Cli& cli) {
  cli.group("Model");
  cli.option("--layers", layers, "encoder layers").range(1, 1000);
  cli.option("--model-dim", model_dim, "width of the states").range(1, 65536);
  cli.option("--heads", heads, "attention heads; must divide the width").range(1, 1024);
  cli.option("--feed-forward-dim", feed_forward_dim, "width inside the feed-forward blocks").range(1, 262144);
  cli.option("--dropout", dropout, "of embeddings, attention weights, and inside and after each block").range(0, 0.99);
  cli.choice("--norm", norm, {{"pre", Norm::pre}, {"post", Norm::post}}, "where sub-layers are normalised");
  cli.option("--attention", attention,
             "of the encoder, as in \"gaussian(window=query, layers=1)\"; see --list-attentions")
      .also("--encoder-attention");
}

void EncoderModelOptions::require_memory(std::int64_t tokens) const {
  // At least: each layer has four projections of the states and two of the feed-forward block, and keeps the inputs of
  // its two norms, the queries, keys, values and attention's result, and the inside of the feed-forward block.
  double d = static_cast<double>(model_dim), f = static_cast<double>(feed_forward_dim);
  double parameters = layers * d * (4 * d + 2 * f), kept = static_cast<double>(tokens) * layers * (6 * d + f);
  double needed = (parameters * 4 + kept) * sizeof(float), there = static_cast<double>(machine_memory().total);
  constexpr double gibibyte = 1 << 30;
  require(needed <= there,
          "--model-dim {}, --feed-forward-dim {}, --layers {}{}: {:.1f} million parameters with their gradients and "
          "Adam's state, and what is kept for the backward pass, take {:.1f} GiB; this machine has {:.1f} GiB",
          model_dim, feed_forward_dim, layers, tokens ? fmt::format(", --batch-tokens {}", tokens) : "",
          parameters / 1e6, needed / gibibyte, there / gibibyte);
}

std::unique_ptr<EncoderClassifier> EncoderModelOptions::make(const std::string& specification, std::int64_t vocabulary,
                                                             std::int64_t classes) const {
  require(model_dim % heads == 0, "--heads {}: must divide --model-dim {}", heads, model_dim);
  EncoderClassifierOptions options;
  options.vocabulary = vocabulary;
  options.classes = classes;
  options.encoder = {.layers = layers,
                     .model_dim = model_dim,
                     .heads = heads,
                     .feed_forward_dim = feed_forward_dim,
                     .norm = norm,
                     .dropout = dropout,
                     .attention_dropout = dropout,
                     .feed_forward_dropout = dropout};
  return std::make_unique<EncoderClassifier>(options, attention_factory(specification));
}

}  // namespace fovea
