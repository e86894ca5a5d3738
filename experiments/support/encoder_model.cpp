#include "experiments/support/encoder_model.h"

#include "attention/registry.h"
#include "experiments/support/program.h"

namespace fovea {

void EncoderModelOptions::add_to(Cli& cli) {
  cli.group("Model");
  cli.option("--layers", layers, "encoder layers").range(1, 1000);
  cli.option("--model-dim", model_dim, "width of the states").at_least(1);
  cli.option("--heads", heads, "attention heads; must divide the width").range(1, 1024);
  cli.option("--feed-forward-dim", feed_forward_dim, "width inside the feed-forward blocks").at_least(1);
  cli.option("--dropout", dropout, "of embeddings, attention weights, and inside and after each block").range(0, 0.99);
  cli.choice("--norm", norm, {{"pre", Norm::pre}, {"post", Norm::post}}, "where sub-layers are normalised");
  cli.option("--attention", attention,
             "of the encoder, as in \"gaussian(window=query, layers=1)\"; see --list-attentions")
      .also("--encoder-attention");
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
