#include "experiments/support/models/transformer_flags.h"

#include "attention/registry.h"
#include "experiments/support/program/program.h"

namespace fovea {

void TransformerFlags::add_sizes(Cli& cli, const std::string& dropped_out, const std::string& attention_note) {
  cli.option("--layers", layers, "layers of the encoder, and of the decoder").range(1, 1000);
  cli.option("--model-dim", model_dim, "width of the states").range(1, 65536);
  cli.option("--heads", heads, "attention heads; must divide the width").range(1, 1024);
  cli.option("--dropout", dropout, "probability of dropping an activation; of " + dropped_out).range(0, 0.99);
  cli.option("--attention", attention,
             "attention of the encoder, as in \"gaussian(window=query, layers=1-3)\"; " + attention_note)
      .also("--encoder-attention");
  cli.option("--list-attentions", list_attentions, "print every attention method with its options, and exit").unsaved();
}

void TransformerFlags::add_blocks(Cli& cli) {
  cli.option("--feed-forward-dim", feed_forward_dim, "width of the feed-forward blocks").range(1, 262144);
  cli.choice("--norm", norm, {{"pre", Norm::pre}, {"post", Norm::post}},
             "place of the layer norms; pre: before each sub-layer, post: after it")
      .rare();
  cli.choice("--recompute", recompute, {{"none", Recompute::none}, {"layers", Recompute::layers}},
             "Transformers only; layers: keep only the input of each layer and compute the layer again in the backward "
             "pass, which takes about a third more time and, with several layers, less than half the memory; the "
             "results are the same")
      .rare();
}

void TransformerFlags::require_heads() const {
  require(model_dim % heads == 0, "--heads {}: must divide --model-dim {}", heads, model_dim);
}

AttentionFactory flagged_attention(const char* flag, const std::string& specification) {
  AttentionFactory made;
  with_flag(flag, [&] { made = attention_factory(specification); });
  // a method that is not defined at some place throws when it is made there
  return [flag, made](const AttentionShape& shape) {
    std::unique_ptr<Attention> attention;
    with_flag(flag, [&] { attention = made(shape); });
    return attention;
  };
}

}  // namespace fovea
