#include "experiments/support/training/hugging_face_parameters.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/core.h>

#include "experiments/support/data/hugging_face_vocabulary.h"
#include "experiments/support/program/hugging_face.h"
#include "experiments/support/text/words.h"
#include "nn/checkpoint.h"
#include "tensor/constant.h"
#include "tensor/format/safetensors.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"
#include "tensor/support/in_quotes.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

/// A model's folder as it was read.
struct Folder {
  Json flags, config;
  std::string file = {};      ///< for messages
  NamedTensors tensors = {};  ///< without the prefix that names the architecture
  std::vector<std::int64_t> rows = {};

  const Tensor& at(const std::string& name) const {
    const auto found = tensors.find(name);
    require(found != tensors.end(), "{}: has no tensor '{}', which a model of the type {} has", file, name,
            text_of(config.at("model_type")));
    return found->second;
  }
};

/// Makes the value of a parameter from a tensor of the folder.
using Change = Tensor (*)(const Tensor& theirs, const Folder& folder);

/// Where the parameters of a layer, or a parameter, come from: the names of both. {} stands for the number of a layer
/// of the stack. A layer has a weight, which norms of ours call gain, and perhaps a bias.
struct Source {
  std::string ours, theirs;
  Change change;
  bool optional = false;  ///< whether tensors may be missing, or of another shape: the parameters keep their values
};

Tensor times(const Tensor& x, double factor) { return map(Multiply{}, x, constant(factor, x.dtype(), Device::cpu)); }

Tensor same(const Tensor& theirs, const Folder&) { return theirs; }
/// The weight [in, out] from that of torch.nn.Linear, [out, in]; a bias as it is.
Tensor transposed(const Tensor& theirs, const Folder&) { return theirs.rank() == 2 ? theirs.transpose(0, 1) : theirs; }

/// GPT-2 keeps queries, keys and values side by side: [..., 3 d].
template <int k>
Tensor third(const Tensor& theirs, const Folder& folder) {
  const std::int64_t last = theirs.rank() - 1, d = theirs.size(last) / 3;
  require(theirs.size(last) == 3 * d, "{}: a tensor 'c_attn' is {}, expected [..., 3 d]", folder.file, theirs.shape());
  return theirs.slice(last, k * d, (k + 1) * d);
}

/// The rows of a table [V, d] in our order; zeros where there is none.
Tensor rows(const Tensor& theirs, const Folder& folder) {
  const std::int64_t size = folder.config.at("vocab_size");
  require(theirs.rank() == 2 && theirs.size(0) == size, "{}: a table of tokens is {}, expected [{}, d] (vocab_size)",
          folder.file, theirs.shape(), size);
  const Tensor table = Tensor::zeros({std::ssize(folder.rows), theirs.size(1)}, theirs.dtype());
  for (std::size_t k = 0; k < folder.rows.size(); ++k)
    if (const std::int64_t row = folder.rows[k]; row >= 0)
      table.select(0, std::int64_t(k)).copy_from(theirs.select(0, row));
  return table;
}
Tensor columns(const Tensor& theirs, const Folder& folder) { return rows(theirs, folder).transpose(0, 1); }

/// A bias of the logits: 0, but so low that the softmax is 0 for tokens that the model does not have, and for <s> if it
/// is another special token of the model's.
Tensor bias_of_rows(const Tensor& theirs, const Folder& folder) {
  constexpr double never = -1e4;
  std::vector<double> bias(folder.rows.size(), 0);
  for (std::size_t k = 0; k < special_tokens; ++k) {
    const bool is_other = k == begin_id && std::ranges::count(folder.rows, folder.rows[k]) > 1;
    if (folder.rows[k] < 0 || is_other) bias[k] = never;
  }
  return Tensor::from(bias, {std::ssize(bias)}).to(theirs.dtype());
}

/// Our table is multiplied by sqrt(d) where it embeds, and T5's divided by it where it makes logits (add_t5()).
Tensor table_of_t5(const Tensor& theirs, const Folder& folder) {
  return rows(
      folder.flags.at("embedding-scale").get<bool>() ? times(theirs, 1 / std::sqrt(double(theirs.size(1)))) : theirs,
      folder);
}
/// Our scores are divided by sqrt(D), those of T5 are not.
Tensor query_of_t5(const Tensor& theirs, const Folder& folder) {
  return times(theirs.transpose(0, 1), std::sqrt(folder.config.at("d_kv").get<double>()));
}

/// BERT adds a vector for the kind of a token's sentence, which is always the first here.
Tensor positions_of_bert(const Tensor& theirs, const Folder& folder) {
  const Tensor& kinds = folder.at("embeddings.token_type_embeddings.weight");
  require(kinds.rank() == 2 && theirs.rank() == 2 && kinds.size(1) == theirs.size(1) && is_float(kinds.dtype()),
          "{}: the tables of positions and of kinds of sentences are {} and {}, expected [..., d]", folder.file, theirs,
          kinds);
  return map(Add{}, theirs, kinds.slice(0, 0, 1));
}

/// Where a parameter has several sources, the first is read whose tensor the folder has.
const std::vector<Source> gpt2{
    {"target_embedding", "wte", rows},
    {"output_bias", "wte.weight", bias_of_rows},
    {"target_positions", "wpe", same},
    {"decoder.{}.attention_norm", "h.{}.ln_1", same},
    {"decoder.{}.attention.query", "h.{}.attn.c_attn", third<0>},
    {"decoder.{}.attention.key", "h.{}.attn.c_attn", third<1>},
    {"decoder.{}.attention.value", "h.{}.attn.c_attn", third<2>},
    {"decoder.{}.attention.output", "h.{}.attn.c_proj", same},
    {"decoder.{}.feed_forward_norm", "h.{}.ln_2", same},
    {"decoder.{}.feed_forward.inner", "h.{}.mlp.c_fc", same},
    {"decoder.{}.feed_forward.outer", "h.{}.mlp.c_proj", same},
    {"decoder.norm", "ln_f", same},
};

const std::vector<Source> bert{
    {"embedding", "embeddings.word_embeddings", rows},
    {"positions", "embeddings.position_embeddings", positions_of_bert},
    {"norm", "embeddings.LayerNorm", same},
    {"encoder.{}.attention.query", "encoder.layer.{}.attention.self.query", transposed},
    {"encoder.{}.attention.key", "encoder.layer.{}.attention.self.key", transposed},
    {"encoder.{}.attention.value", "encoder.layer.{}.attention.self.value", transposed},
    {"encoder.{}.attention.output", "encoder.layer.{}.attention.output.dense", transposed},
    {"encoder.{}.attention_norm", "encoder.layer.{}.attention.output.LayerNorm", same},
    {"encoder.{}.feed_forward.inner", "encoder.layer.{}.intermediate.dense", transposed},
    {"encoder.{}.feed_forward.outer", "encoder.layer.{}.output.dense", transposed},
    {"encoder.{}.feed_forward_norm", "encoder.layer.{}.output.LayerNorm", same},
    {"pooler", "pooler.dense", transposed, true},
    {"classifier", "classifier", transposed, true},
};

const std::vector<Source> t5{
    {"target_embedding", "shared", table_of_t5},
    {"source_embedding", "shared", table_of_t5},
    {"output_bias", "shared.weight", bias_of_rows},
    {"output", "lm_head", columns},
    {"output", "shared", columns},
    {"encoder.{}.attention.query", "encoder.block.{}.layer.0.SelfAttention.q", query_of_t5},
    {"encoder.{}.attention.key", "encoder.block.{}.layer.0.SelfAttention.k", transposed},
    {"encoder.{}.attention.value", "encoder.block.{}.layer.0.SelfAttention.v", transposed},
    {"encoder.{}.attention.output", "encoder.block.{}.layer.0.SelfAttention.o", transposed},
    // All layers of T5 share the biases of the first layer; each of our layers gets a copy.
    {"encoder.{}.attention.t5.bias", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", same},
    {"encoder.{}.attention_norm", "encoder.block.{}.layer.0.layer_norm", same},
    {"encoder.{}.feed_forward.inner", "encoder.block.{}.layer.1.DenseReluDense.wi_0", transposed},
    {"encoder.{}.feed_forward.inner", "encoder.block.{}.layer.1.DenseReluDense.wi", transposed},
    {"encoder.{}.feed_forward.gate", "encoder.block.{}.layer.1.DenseReluDense.wi_1", transposed},
    {"encoder.{}.feed_forward.outer", "encoder.block.{}.layer.1.DenseReluDense.wo", transposed},
    {"encoder.{}.feed_forward_norm", "encoder.block.{}.layer.1.layer_norm", same},
    {"encoder.norm", "encoder.final_layer_norm", same},
    {"decoder.{}.attention.query", "decoder.block.{}.layer.0.SelfAttention.q", query_of_t5},
    {"decoder.{}.attention.key", "decoder.block.{}.layer.0.SelfAttention.k", transposed},
    {"decoder.{}.attention.value", "decoder.block.{}.layer.0.SelfAttention.v", transposed},
    {"decoder.{}.attention.output", "decoder.block.{}.layer.0.SelfAttention.o", transposed},
    {"decoder.{}.attention.t5.bias", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", same},
    {"decoder.{}.attention_norm", "decoder.block.{}.layer.0.layer_norm", same},
    {"decoder.{}.cross.query", "decoder.block.{}.layer.1.EncDecAttention.q", query_of_t5},
    {"decoder.{}.cross.key", "decoder.block.{}.layer.1.EncDecAttention.k", transposed},
    {"decoder.{}.cross.value", "decoder.block.{}.layer.1.EncDecAttention.v", transposed},
    {"decoder.{}.cross.output", "decoder.block.{}.layer.1.EncDecAttention.o", transposed},
    {"decoder.{}.cross_norm", "decoder.block.{}.layer.1.layer_norm", same},
    {"decoder.{}.feed_forward.inner", "decoder.block.{}.layer.2.DenseReluDense.wi_0", transposed},
    {"decoder.{}.feed_forward.inner", "decoder.block.{}.layer.2.DenseReluDense.wi", transposed},
    {"decoder.{}.feed_forward.gate", "decoder.block.{}.layer.2.DenseReluDense.wi_1", transposed},
    {"decoder.{}.feed_forward.outer", "decoder.block.{}.layer.2.DenseReluDense.wo", transposed},
    {"decoder.{}.feed_forward_norm", "decoder.block.{}.layer.2.layer_norm", same},
    {"decoder.norm", "decoder.final_layer_norm", same},
};

/// Tensors that are no parameters (masks and numbers of positions), that repeat others, or that a Change reads.
bool is_expendable(const std::string& name) {
  constexpr const char* ends[] = {".attn.bias",
                                  ".attn.masked_bias",
                                  "position_ids",
                                  "embed_tokens.weight",
                                  "lm_head.weight",
                                  "EncDecAttention.relative_attention_bias.weight",
                                  "token_type_embeddings.weight"};
  return std::ranges::any_of(ends, [&](const char* end) { return name.ends_with(end); });
}

/// Reads the tensors of a folder. Names lose the prefix of the architecture; old files of BERT call gains "gamma" and
/// biases "beta".
NamedTensors read_tensors(const fs::path& folder, std::string& file) {
  std::set<fs::path> files{folder / "model.safetensors"};
  const fs::path index = folder / "model.safetensors.index.json";
  if (!fs::exists(*files.begin()) && fs::exists(index)) {
    files.clear();
    reading_json(
        index.string(),
        [&] {
          const Json parts = load_json(index).at("weight_map");
          for (const auto& [name, part] : parts.items()) {
            const fs::path one = part.get<std::string>();
            require(one == one.filename(), "{}: {} is not in the folder", index.string(), in_quotes(one.string()));
            files.insert(folder / one);
          }
          require(!files.empty(), "{}: weight_map is empty, expected the files of the tensors", index.string());
        },
        "an index of .safetensors files");
  }
  require(!fs::exists(folder / "pytorch_model.bin") || fs::exists(*files.begin()),
          "{}: has pytorch_model.bin, expected model.safetensors; in Python: model.save_pretrained(FOLDER, "
          "safe_serialization=True) writes it",
          folder.string());
  file = (files.size() == 1 ? *files.begin() : index).string();
  NamedTensors tensors;
  for (const fs::path& each : files)
    for (auto& [name, tensor] : read_safetensors(each).tensors) {
      std::string own = name;
      for (const std::string_view prefix : {"transformer.", "bert."})
        if (own.starts_with(prefix)) own.erase(0, prefix.size());
      for (const auto& [old, now] : {std::pair(".gamma", ".weight"), std::pair(".beta", ".bias")})
        if (own.ends_with(old)) own.replace(own.rfind(old), std::string::npos, now);
      const bool is_new =
          tensors
              .emplace(own, is_float(tensor.dtype()) && tensor.dtype() != DType::f64 ? tensor.to(DType::f32) : tensor)
              .second;
      require(is_new, "{}: there are two tensors {}, with and without a prefix", each.string(), in_quotes(own));
    }
  return tensors;
}

/// A parameter's name with {} for the number of its layer of the stack, and that number.
std::pair<std::string, std::string> without_number(const std::string& name) {
  const std::size_t begin = name.find('.') + 1, end = name.find('.', begin);
  if (begin == 0 || end == name.npos || name.find_first_not_of("0123456789", begin) != end) return {name, ""};
  return {name.substr(0, begin) + "{}" + name.substr(end), name.substr(begin, end - begin)};
}

std::string with_number(std::string pattern, const std::string& number) {
  if (const std::size_t at = pattern.find("{}"); at != pattern.npos) pattern.replace(at, 2, number);
  return pattern;
}

/// The source of a parameter, with the tensor's full name: the first whose tensor is there, or the last.
std::optional<Source> source_of(const std::vector<Source>& sources, const std::string& parameter,
                                const NamedTensors& tensors) {
  const auto [pattern, number] = without_number(parameter);
  const std::size_t dot = pattern.rfind('.');
  const std::string of_layer = pattern.ends_with(".bias") ? ".bias" : ".weight";
  std::optional<Source> found;
  for (const Source& source : sources) {
    const bool is_layer = dot != pattern.npos && source.ours == pattern.substr(0, dot);
    if ((source.ours != pattern && !is_layer) || (found && tensors.contains(found->theirs))) continue;
    found = source;
    found->theirs = with_number(source.theirs, number) + (is_layer ? of_layer : "");
  }
  return found;
}

void print_names(const std::string& file, const char* what, const std::vector<std::string>& names) {
  if (!names.empty()) warn(fmt::format("{}: {}: {}", file, what, first_few(names)));
}

}  // namespace

void load_hugging_face(Module& model, const fs::path& path) {
  Folder folder{.flags = hugging_face_flags(path), .config = load_json(path / "config.json")};
  folder.tensors = read_tensors(path, folder.file);
  folder.rows = hugging_face_vocabulary(path).rows;
  const std::string type = folder.config.at("model_type");
  const std::vector<Source>& sources = type == "gpt2" ? gpt2 : type == "bert" ? bert : t5;
  std::set<std::string> used;
  std::vector<std::string> kept, unused;
  for (NamedParameter& parameter : model.parameters()) {
    const std::optional<Source> source = source_of(sources, parameter.name, folder.tensors);
    const bool is_there = source && folder.tensors.contains(source->theirs);
    if (!is_there && type == "t5" && source && source->theirs.ends_with(".bias")) continue;  // T5 has no such biases
    if (!is_there && (!source || source->optional)) {
      kept.push_back(parameter.name);
      continue;
    }
    const Tensor& theirs = folder.at(source->theirs);
    require(is_float(theirs.dtype()) && (theirs.rank() == 1 || theirs.rank() == 2),
            "{}: tensor '{}' is {}, expected floating-point numbers in one or two dimensions", folder.file,
            source->theirs, theirs);
    const Tensor value = source->change(theirs, folder);
    const bool fits = value.shape() == parameter.variable.shape();
    require(fits || source->optional,
            "{}: tensor '{}' is {}, which makes {}; the parameter '{}' is {} (--preset {} sets the model's sizes)",
            folder.file, source->theirs, theirs.shape(), value.shape(), parameter.name, parameter.variable.shape(),
            path.string());
    used.insert(source->theirs);
    fits ? parameter.variable.value().copy_from(value) : kept.push_back(parameter.name);
  }
  for (const auto& [name, tensor] : folder.tensors)
    if (!used.contains(name) && !is_expendable(name)) unused.push_back(name);
  print_names(folder.file, "has no values for these parameters, which keep their initial ones", kept);
  print_names(folder.file, "the model has no place for these tensors", unused);
}

}  // namespace fovea
