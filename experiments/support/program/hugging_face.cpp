#include "experiments/support/program/hugging_face.h"

#include <algorithm>

#include <fmt/core.h>

#include "experiments/support/program/cli.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/in_quotes.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

/// A flag, and the key of config.json that has its value. Where the key is missing, or null, the value is `otherwise`;
/// if that is null too, the key must be there.
struct Setting {
  const char *flag, *key;
  Json otherwise = {};
};

struct ModelType {
  std::string name;  ///< model_type in config.json
  Json flags;        ///< those that all models of the type have, and the program
  std::vector<Setting> settings;
  Json required;  ///< values that the keys must have if they are there: our models have no other
};

const std::vector<ModelType>& model_types() {
  static const std::vector<ModelType> all{
      {"gpt2",
       {{"program", "language_model"}, {"norm", "pre"}, {"positions", "learned"}, {"embedding-scale", false}},
       {{"layers", "n_layer"},
        {"model-dim", "n_embd"},
        {"heads", "n_head"},
        {"feed-forward-dim", "n_inner", 0},
        {"max-positions", "n_positions"},
        {"norm-epsilon", "layer_norm_epsilon", 1e-5},
        {"activation", "activation_function", "gelu_new"},
        {"dropout", "resid_pdrop", 0.1},
        {"attention-dropout", "attn_pdrop", 0.1}},
       {{"scale_attn_weights", true},
        {"scale_attn_by_inverse_layer_idx", false},
        {"add_cross_attention", false},
        {"tie_word_embeddings", true}}},
      {"bert",
       {{"program", "sentiment"},
        {"norm", "post"},
        {"positions", "learned"},
        {"embedding-norm", true},
        {"embedding-scale", false},
        {"pool", "first"}},
       {{"layers", "num_hidden_layers"},
        {"model-dim", "hidden_size"},
        {"heads", "num_attention_heads"},
        {"feed-forward-dim", "intermediate_size"},
        {"max-positions", "max_position_embeddings"},
        {"norm-epsilon", "layer_norm_eps", 1e-12},
        {"activation", "hidden_act", "gelu"},
        {"dropout", "hidden_dropout_prob", 0.1}},
       {{"position_embedding_type", "absolute"}, {"is_decoder", false}, {"add_cross_attention", false}}},
      {"t5",
       {{"program", "translate"}, {"norm", "pre"}, {"norm-kind", "rms"}, {"positions", "none"}},
       {{"layers", "num_layers"},
        {"decoder-layers", "num_decoder_layers", 0},
        {"model-dim", "d_model"},
        {"heads", "num_heads"},
        {"feed-forward-dim", "d_ff"},
        {"norm-epsilon", "layer_norm_epsilon", 1e-6},
        {"dropout", "dropout_rate", 0.1},
        {"attention-dropout", "dropout_rate", 0.1},
        {"feed-forward-dropout", "dropout_rate", 0.1}},
       Json::object()}};
  return all;
}

/// Our name of an activation. Throws Error, with the key, for one that our models do not have.
std::string activation_of(const std::string& file, const std::string& key, const std::string& theirs) {
  constexpr std::pair<const char*, const char*> names[] = {
      {"relu", "relu"}, {"gelu", "gelu"}, {"gelu_new", "gelu-tanh"}, {"gelu_pytorch_tanh", "gelu-tanh"}};
  for (const auto& [name, ours] : names)
    if (name == theirs) return ours;
  fail("{}: {} is {}, expected relu, gelu, gelu_new or gelu_pytorch_tanh", file, key, in_quotes(theirs));
}

/// The flags of T5 that depend on several keys. T5 1.1 has gates, and an output layer of its own, whose logits have no
/// factor; the first T5 divides the logits by sqrt(d). The first one's table of embeddings is therefore ours times
/// sqrt(d), which is what scaled embeddings are.
void add_t5(const std::string& file, const Json& config, Json& flags) {
  const std::int64_t heads = config.at("num_heads"), of_head = config.at("d_kv");
  require(of_head > 0, "{}: d_kv is {}, expected a whole number from 1", file, of_head);
  if (heads * of_head != config.at("d_model")) flags["head-dim"] = of_head;
  std::string kind = config.value("feed_forward_proj", "relu");
  const bool gated = kind.starts_with("gated-");
  if (gated) kind = kind == "gated-gelu" ? "gelu_new" : kind.substr(std::string("gated-").size());
  flags["activation"] = activation_of(file, "feed_forward_proj", kind);
  flags["gated"] = gated;
  const bool scales = config.value("scale_decoder_outputs", config.value("tie_word_embeddings", true));
  flags["embedding-scale"] = scales;
  flags["tied"] = scales ? "all" : "none";
  for (const char* flag : {"attention", "decoder-attention"})
    flags[flag] = fmt::format("t5(buckets={}, max_distance={})", config.value("relative_attention_num_buckets", 32),
                              config.value("relative_attention_max_distance", 128));
}

Json flags_of(const std::string& file, const ModelType& type, const Json& config) {
  for (const auto& [key, value] : type.required.items())
    require(!config.contains(key) || config.at(key) == value, "{}: {} is {}, which our models do not have; expected {}",
            file, key, text_of(config.value(key, Json())), text_of(value));
  Json flags = type.flags;
  for (const auto& [flag, key, otherwise] : type.settings) {
    Json value = config.value(key, Json());
    if (value.is_null()) value = otherwise;
    require(!value.is_null(), "{}: has no '{}', which a model of the type {} has", file, key, type.name);
    flags[flag] = flag == std::string("activation") ? Json(activation_of(file, key, value)) : value;
  }
  if (type.name == "t5") add_t5(file, config, flags);
  if (flags.at("feed-forward-dim") == 0) flags["feed-forward-dim"] = 4 * flags.at("model-dim").get<std::int64_t>();
  // our vocabularies have special tokens that the model lacks; the bias keeps it from predicting them
  if (flags.at("program") != "sentiment") flags["output-bias"] = true;
  return flags;
}

}  // namespace

bool is_hugging_face(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / "config.json", ignored)) return false;
  const Json config = load_json(folder / "config.json");
  return config.is_object() && (config.contains("model_type") || config.contains("architectures"));
}

Json hugging_face_flags(const fs::path& folder) {
  const std::string file = (folder / "config.json").string();
  const Json config = load_json(file);
  const std::string type = text_of(config.value("model_type", Json()));
  std::vector<std::string> types;
  for (const ModelType& each : model_types()) types.push_back(text_of(each.name));
  const auto known = std::ranges::find(types, type);
  require(known != types.end(),
          "{}: describes a model of the type {}, expected {}; attend --in reads the tensors of others", file, type,
          alternatives(types));
  Json flags;
  reading_json(
      file, [&] { flags = flags_of(file, model_types()[std::size_t(known - types.begin())], config); },
      "the configuration of such a model");
  return flags;
}

std::vector<std::string> hugging_face_classes(const fs::path& folder) {
  const std::string file = (folder / "config.json").string();
  std::vector<std::string> classes;
  reading_json(
      file,
      [&] {
        Json labels = load_json(file).value("id2label", Json());
        if (labels.empty()) labels = {{"0", "LABEL_0"}, {"1", "LABEL_1"}};
        for (std::size_t k = 0; k < labels.size(); ++k) classes.push_back(labels.at(std::to_string(k)));
      },
      "the configuration of a classifier");
  for (const std::string& name : classes)
    require(!name.empty() && name.find('\n') == name.npos && std::ranges::count(classes, name) == 1,
            "{}: id2label: the class '{}' is {}", file, printable(name),
            name.empty()                   ? "empty"
            : name.find('\n') == name.npos ? "given twice"
                                           : "of several lines");
  return classes;
}

Json hugging_face_flags(const fs::path& folder, const Cli& cli) {
  Json flags = hugging_face_flags(folder);
  const std::string program = flags.at("program");
  flags.erase("program");
  for (const auto& [flag, value] : flags.items())
    require(cli.declares(flag), "{}: is a model for {}; {} has no --{}", folder.string(), program, cli.program(), flag);
  const bool is_decoder = program == "language_model";  // the flags of its sizes are those of an encoder-decoder, too
  const char *own = is_decoder ? "sample" : "decode", *other = is_decoder ? "decode" : "sample";
  require(cli.declares(own) || !cli.declares(other), "{}: is a model for {}, not for {}", folder.string(), program,
          cli.program());
  return flags;
}

}  // namespace fovea
