#include "experiments/support/models/encoder_model.h"

#include <filesystem>

#include <fmt/core.h>

#include "attention/registry.h"
#include "experiments/support/attend/attention_catalogue.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/program/files.h"
#include "experiments/support/program/hugging_face.h"
#include "experiments/support/program/program.h"
#include "nn/shapes_only.h"
#include "tensor/error.h"
#include "tensor/support/machine_memory.h"

namespace fovea {

namespace {

std::string preset_help() {
  std::string text =
      "a model and its training, in values that other flags override: a .json file, the folder of a model as "
      "Hugging Face publishes it (gpt2, bert, t5), whose parameters and vocabulary the training then begins with, or "
      "one of";
  for (const std::string& name : preset_names())
    text += fmt::format("\n{}: {}", name, load_json(data_directory("presets") / (name + ".json")).value("about", ""));
  return text;
}

}  // namespace

std::vector<std::string> preset_names() { return names_of_data("presets"); }

Json preset_values(const std::string& name) {
  const std::filesystem::path path = path_of_data("preset", name, preset_names());
  Json values = load_json(path);
  require(values.is_object(), "{}: expected an object with the values of flags, found {}", path.string(),
          values.type_name());
  values.erase("about");
  return values;
}

void preset_flag(Cli& cli, std::string& preset) {
  cli.option("--preset", preset, "a model and its training under a name; --help-all lists them")
      .long_help(preset_help)
      .configures([&cli](const std::string& wanted) {
        if (is_hugging_face(wanted)) {
          Json all = hugging_face_flags(wanted, cli);
          all["init"] = all["vocabulary"] = wanted;
          return all;
        }
        Json known = Json::object();
        const Json all = preset_values(wanted);
        if (wanted.ends_with(".json")) return all;  // a key that is no flag is refused; presets/ is for all programs
        for (const auto& [key, value] : all.items())
          if (cli.declares(key)) known[key] = value;
        return known;
      });
}

void TransformerFlags::add_sizes(Cli& cli, const std::string& dropped_out, const std::string& attention_note) {
  cli.option("--layers", layers, "layers of the encoder, and of the decoder").range(1, 1000);
  cli.option("--model-dim", model_dim, "width of the states").range(1, 65536);
  cli.option("--heads", heads, "attention heads; without --head-dim they must divide the width").range(1, 1024);
  cli.rare("--head-dim", head_dim, "width of a head; 0: --model-dim / --heads").range(0, 1 << 16);
  cli.option("--dropout", dropout, "probability of dropping an activation; of " + dropped_out).range(0, 0.99);
  cli.option("--attention", attention,
             "attention of the encoder, as in \"gaussian(window=query, layers=1-3)\"; " + attention_note)
      .also("--encoder-attention");
  cli.option("--list-attentions", list_attentions, "print every attention method with its options, and exit")
      .prints(attention_catalogue);
}

void TransformerFlags::add_blocks(Cli& cli) {
  cli.option("--feed-forward-dim", feed_forward_dim, "width of the feed-forward blocks").range(1, 262144);
  cli.choice("--norm", norm, {{"pre", Norm::pre}, {"post", Norm::post}},
             "place of the norms; pre: before each sub-layer, post: after it")
      .rare();
  cli.choice("--norm-kind", norm_kind, {{"layer", NormKind::layer}, {"rms", NormKind::rms}},
             "Transformers only; rms: the norms divide by the root mean square alone, without a mean and a bias")
      .rare();
  cli.rare("--norm-epsilon", norm_epsilon, "Transformers only; is added to the variance that a norm divides by")
      .range(0, 1e6);
  cli.rare("--final-norm", final_norm, "with --norm pre: a last norm after each stack");
  cli.choice("--activation", activation,
             {{"relu", Activation::relu}, {"gelu", Activation::gelu}, {"gelu-tanh", Activation::gelu_tanh}},
             "activation of the feed-forward blocks; gelu-tanh: gelu by a tanh, as in GPT-2")
      .rare();
  cli.rare("--gated", gated, "multiply the activation of the feed-forward blocks by another linear layer's output");
  cli.choice("--recompute", recompute, {{"none", Recompute::none}, {"layers", Recompute::layers}},
             "Transformers only; layers: keep only the input of each layer and compute the layer again in the backward "
             "pass, which takes about a third more time and, with several layers, less than half the memory; the "
             "results are the same")
      .rare();
}

void TransformerFlags::add_inputs(Cli& cli) {
  cli.choice("--positions", positions,
             {{"none", Positions::none}, {"sinusoidal", Positions::sinusoidal}, {"learned", Positions::learned}},
             "the encoding that is added to embeddings")
      .rare();
  cli.rare("--max-positions", longest, "the number of learned positions").range(1, 1 << 20);
  cli.rare("--embedding-norm", embedding_norm, "normalise the sum of embedding and position");
  cli.rare("--embedding-scale", embedding_scale, "multiply embeddings by the square root of their width");
}

void TransformerFlags::require_memory(double parameters, int copies, double kept) const {
  const double needed = (parameters * copies + kept) * sizeof(float), there = double(machine_memory().total);
  constexpr double gibibyte = 1 << 30;
  require(
      needed <= there,
      "--model-dim {},{} --feed-forward-dim {}, --layers {}: {:.0f} million parameters at least{}{} take {:.1f} GiB; "
      "this machine has {:.1f} "
      "GiB",
      model_dim, head_dim > 0 ? fmt::format(" --heads {}, --head-dim {},", heads, head_dim) : "", feed_forward_dim,
      layers, parameters / 1e6, copies > 1 ? ", with their gradients and Adam's state," : "",
      kept > 0 ? " and the values kept for the backward pass" : "", needed / gibibyte, there / gibibyte);
}

void TransformerFlags::require_heads() const {
  require(head_dim > 0 || model_dim % heads == 0, "--heads {}: must divide --model-dim {}", heads, model_dim);
}

AttentionFactory flagged_attention(const char* flag, const std::string& specification) {
  AttentionFactory made;
  with_flag(flag, [&] {
    made = attention_factory(specification);
    for (const ReadInput& input : inputs_of(specification))
      require(input.name != "mask" && !(input.always && input.name.ends_with("_pointer")),
              "'{}' needs a {} with each call, which the models here do not give; attend --in takes one", specification,
              input.name);
  });
  // a method that is not defined at some place throws when it is made there
  return [flag, made](const AttentionShape& shape) {
    std::unique_ptr<Attention> attention;
    with_flag(flag, [&] { attention = made(shape); });
    return attention;
  };
}

void EncoderModelOptions::add_to(Cli& cli) {
  cli.group("Model");
  preset_flag(cli, preset);
  add_sizes(cli, "embeddings, attention weights, hidden layers and outputs of blocks", "see --list-attentions");
  add_blocks(cli);
}

void EncoderModelOptions::add_classifier(Cli& cli) {
  add_inputs(cli);
  cli.choice("--pool", pool, {{"mean", Pool::masked}, {"first", Pool::first}},
             "the state that is classified; mean: of all tokens; first: a tanh layer on the first token's, as in BERT")
      .rare();
}

void EncoderModelOptions::require_memory(int copies, std::int64_t tokens) const {
  // A lower bound. Each layer has four projections of the states and two of the feed-forward block. It keeps the inputs
  // of its two norms, queries, keys, values, the attention's result, and the hidden layer of the feed-forward block.
  const double d = double(model_dim), f = double(feed_forward_dim),
               of_heads = head_dim > 0 ? double(heads) * double(head_dim) : d;
  TransformerFlags::require_memory(layers * d * (4 * of_heads + 2 * f), copies,
                                   double(tokens) * layers * (2 * d + 4 * of_heads + f));
}

void EncoderModelOptions::check(int copies) const {
  require_memory(copies);
  ShapesOnly instead_of_an_encoder;
  TransformerStack(encoder(), Place::encoder, encoder_layer(factory()));
}

TransformerOptions EncoderModelOptions::encoder() const {
  require_heads();
  TransformerOptions options = *this;
  options.attention_dropout = options.feed_forward_dropout = dropout;
  return options;
}

std::unique_ptr<EncoderClassifier> EncoderModelOptions::make(const std::string& specification, std::int64_t vocabulary,
                                                             std::int64_t classes) const {
  const EncoderClassifierOptions options{.vocabulary = vocabulary,
                                         .classes = classes,
                                         .encoder = encoder(),
                                         .positions = positions,
                                         .longest = longest,
                                         .embedding_norm = embedding_norm,
                                         .embedding_scale = embedding_scale,
                                         .pool = pool};
  return std::make_unique<EncoderClassifier>(options, flagged_attention("--attention", specification));
}

}  // namespace fovea
