/// The interface between Transformer layers and attention. nn/ knows only this interface; attention/ implements it.
///
/// Letters of shapes: B sentences, I queries, J keys, H heads, d model width.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/decoder_memory.h"
#include "nn/module.h"

namespace fovea {

/// The place of an attention in a model: self-attention of an encoder or of a decoder, or attention over a source.
enum class Place { encoder, decoder, cross };

/// Intermediate results of one attention, for plots and tests. Filled where AttentionInput::trace points to one.
struct AttentionTrace {
  std::string name;  ///< of the attention in its stack, such as "0.cross"
  Variable weights;  ///< coefficients of the values, after masks and windows and before dropout, [B, H, I, J]
  std::vector<std::pair<std::string, Variable>> quantities;  ///< the method's own: "center", "width", "window", ...
};

struct AttentionInput {
  Variable query;           ///< [B, I, d]
  Variable key;             ///< [B, J, d]; the same variable as `query` in self-attention
  Variable value;           ///< [B, J, d]
  Tensor key_lengths = {};  ///< number of real keys of each sentence, i32 [B]; padding follows them. Undefined: J each
  Variable mask = {};       ///< M in [0, 1], of any type, [B or 1, H or 1, I or 1, J]; for methods that read a mask
  bool causal = false;      ///< a query sees the keys up to its own position only
  std::int64_t query_offset = 0;    ///< position of the first query among the keys; > 0 in step-by-step decoding
  AttentionTrace* trace = nullptr;  ///< filled unless null

  // Inputs of step-by-step decoding. All of them are optional.
  Variable step_input = {};  ///< the decoder's input at each query's step, the previous token's embedding [B, I, d_e]
  Variable previous_focus =
      {};  ///< flexible attention's focus before the first query, [B] or [B, H]. Default: `memory`'s
  /// Keys, values and states of earlier calls; empty before the first call. With a memory, each causal call passes the
  /// keys and values of its own queries only: the earlier ones are in the memory. Each call over a source passes the
  /// whole source, which only the first call reads.
  DecoderMemory* memory = nullptr;

  /// Whether this call's keys and values are appended to those of earlier calls.
  bool appends_keys() const { return memory && causal; }
  /// Number of keys that the last query may see, with those in the memory.
  std::int64_t key_count() const { return (appends_keys() ? query_offset : 0) + key.size(1); }
  /// fovea::all_keys() for this call.
  template <class Make>
  Variable all_keys(const void* owner, Make&& make) const {
    return fovea::all_keys(memory, causal, owner, make);
  }
};

/// The shape and place that an attention is constructed with.
struct AttentionShape {
  std::int64_t model_dim = 512;  ///< d
  int heads = 8;                 ///< H; divides d
  int layer = 0;                 ///< number of this layer, 0 … layers − 1
  int layers = 1;
  Place place = Place::encoder;
  double dropout = 0;  ///< probability with which an attention weight is dropped, in [0, 1)

  /// Widths of the input's query, key and value; 0 stands for model_dim. In multi-head attention, which projects its
  /// inputs, queries are model_dim wide.
  std::int64_t query_dim = 0, key_dim = 0, value_dim = 0;
  std::int64_t step_dim = 0;  ///< d_e, the width of AttentionInput::step_input; 0: there is no step input
};

class Attention : public Module {
 public:
  /// → [B, I, output_dim()]
  virtual Variable forward(const AttentionInput& input) = 0;
  /// d for multi-head attention; the width of the values for attention without projections.
  virtual std::int64_t output_dim() const = 0;
  /// Whether the result for a query over a source depends on that query and the source only: not on the query's
  /// position, nor on other queries. Then the hypotheses of a source can be decoded as queries of one sentence.
  virtual bool has_independent_queries() const { return false; }
};

using AttentionFactory = std::function<std::unique_ptr<Attention>(const AttentionShape&)>;

}  // namespace fovea
