/// What a Transformer layer asks of an attention mechanism. nn/ only knows this interface; attention/ implements it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/decoder_memory.h"
#include "nn/module.h"

namespace fovea {

/// Where an attention sits in a model.
enum class Place { encoder, decoder, cross };

/// What an attention computed on the way, for pictures and tests: filled when AttentionInput::trace points to one.
struct AttentionTrace {
  std::string name;  ///< of the attention in its stack, "0.cross"
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

  // What a decoder that goes step by step passes on; undefined for the first step, and where nobody asks.
  Variable step_input = {};      ///< what it reads at each step, the embedding of the previous word [B, I, d_e]
  Variable previous_focus = {};  ///< flexible attention's p before the first query, [B] or [B, H]; memory has it too
  /// Kept from step to step, and begun empty. With one, causal attention gets the keys and values of this call's
  /// queries alone: those of the earlier ones are in the memory. Without causality it gets the whole source each time,
  /// but looks at it in the first step only.
  DecoderMemory* memory = nullptr;

  bool grows() const { return memory && causal; }  ///< keys and values come behind those of earlier calls
  /// Keys in sight of the last query, those in the memory included.
  std::int64_t keys() const { return (grows() ? query_offset : 0) + key.size(1); }
  /// of_all_keys() of this call.
  template <class Make>
  Variable of_keys(const void* owner, Make&& make) const {
    return of_all_keys(memory, causal, owner, make);
  }
};

/// What is fixed when an attention is made.
struct AttentionShape {
  std::int64_t model_dim = 512;  ///< d
  int heads = 8;                 ///< H; divides d
  int layer = 0;                 ///< 0-based, of `layers`
  int layers = 1;
  Place place = Place::encoder;
  double dropout = 0;  ///< of the attention weights

  /// Widths of the inputs, d_q, d_k and d_v; 0: model_dim. Those of the queries are model_dim where there are
  /// projections.
  std::int64_t query_dim = 0, key_dim = 0, value_dim = 0;
  std::int64_t step_dim = 0;  ///< of AttentionInput::step_input, d_e; 0: there is none
};

class Attention : public Module {
 public:
  /// [B, I, d]; [B, I, d_v] without projections
  virtual Variable forward(const AttentionInput& input) = 0;
  virtual std::int64_t output_dim() const = 0;  ///< the last of forward()'s sizes
  /// Over a source each query's result depends on the query and the source alone: not on its position, and not on
  /// other queries. Hypotheses of one source may then be asked as queries of one sentence.
  virtual bool asks_each_query_alone() const { return false; }
};

using AttentionFactory = std::function<std::unique_ptr<Attention>(const AttentionShape&)>;

}  // namespace fovea
