#include "experiments/support/encoder_model.h"

#include "attention/registry.h"
#include "experiments/support/program.h"
#include "experiments/support/table.h"

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

std::string attention_catalogue() {
  std::string text =
      "Methods are combined with '+'; each takes layers=FIRST-LAST and heads=FIRST-LAST, counted from 1;\n"
      "heads(global*2, gaussian*2) gives different heads different methods.\n";
  auto describe = [&](const auto& entry) {
    const MethodCard& card = entry.card;
    text += fmt::format("\n{}: {} ({})\n  {}\n", card.name, card.summary, card.reference, card.formula);
    Table options({"option", "default", "values", "meaning"});
    auto rows = describe_options(entry);
    for (const OptionDescription& row : rows) options.row({row.name, row.default_value, row.values, row.meaning});
    if (!rows.empty()) text += options.text();
  };
  for (const MethodEntry& entry : registered_methods()) describe(entry);
  text += "\nAttentions without projections, of sums of these methods: classic(additive), average(dot*2, laplace)\n";
  for (const Combination& entry : combinations()) describe(entry);
  return text;
}

}  // namespace fovea
