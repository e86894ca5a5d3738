/// What a Transformer layer asks of an attention mechanism. nn/ only knows this interface; attention/ implements it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace fovea {

/// Where an attention sits in a model.
enum class Place { encoder, decoder, cross };

/// What an attention computed on the way, for pictures and tests: filled when AttentionInput::trace points to one.
struct AttentionTrace {
  Variable weights;  ///< the coefficients of the values, after every mask and window, before dropout [B, H, I, J]
  std::vector<std::pair<std::string, Variable>> quantities;  ///< the method's own: "center", "width", "window", ...
};

struct AttentionInput {
  Variable query;           ///< states of the sub-layer's input, [B, I, d]
  Variable key;             ///< [B, J, d]; the same variable as query in self-attention
  Variable value;           ///< [B, J, d]
  Tensor key_lengths = {};  ///< real keys of each sentence, i32 [B]; undefined: all J. Padding is on the right.
  Variable mask = {};       ///< for methods that take one: M in [0, 1], bool or not, [B or 1, H or 1, I or 1, J]
  bool causal = false;
  std::int64_t query_offset = 0;  ///< position of the first query among the keys (incremental decoding)
  AttentionTrace* trace = nullptr;
};

/// What is fixed when an attention is made.
struct AttentionShape {
  std::int64_t model_dim = 512;  ///< d
  int heads = 8;                 ///< H; divides d
  int layer = 0;                 ///< 0-based, of `layers`
  int layers = 1;
  Place place = Place::encoder;
  double dropout = 0;  ///< of the attention weights
};

class Attention : public Module {
 public:
  /// [B, I, d]
  virtual Variable forward(const AttentionInput& input) = 0;
};

using AttentionFactory = std::function<std::unique_ptr<Attention>(const AttentionShape&)>;

}  // namespace fovea
