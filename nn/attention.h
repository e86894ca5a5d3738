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
#include "nn/shared_tensors.h"

namespace fovea {

/// The place of an attention in a model: self-attention of an encoder or of a decoder, or attention over a source.
enum class Place { encoder, decoder, cross };

struct RowQuantities;

/// A quantity that an attention's method computes on the way, for the heads on which the method acts.
struct TracedQuantity {
  std::string name;  ///< "center", "width", "window", ...
  Variable value;    ///< [B, heads, I, ...] or [heads]; 1 in place of `heads` if it is the same for all of them
  std::int64_t first_head = 0;  ///< counted from 0
  std::int64_t heads = 1;
};

/// Intermediate results of one call of an attention, for plots and tests. The call fills the trace to which
/// AttentionInput::trace points.
struct AttentionTrace {
  std::string name;  ///< name of the attention in its stack, such as "0.cross" for the cross-attention of layer 0
  Place place = Place::encoder;  ///< the attention's place in the model
  /// Attention weights, which multiply the values: after masks and windows, before dropout. [B, H, I, J], or
  /// [B, H, I, J, D] if each of the D dimensions of the values has weights of its own.
  Variable weights;
  std::vector<TracedQuantity> quantities;
  /// Unless null, the call stores its row quantities here (nn/row_quantities.h), and no weights and quantities. It then
  /// needs O(I + J) memory.
  RowQuantities* rows = nullptr;
};

struct AttentionInput {
  Variable query;  ///< queries before any projection, [B, I, d]
  Variable key;    ///< keys before any projection, [B, J, d]; the same variable as `query` in self-attention
  Variable value;  ///< values before any projection, [B, J, d]
  /// Number of real keys of each sentence, i32 or i64 [B]; the keys after them are padding. Undefined if all J keys are
  /// real.
  Tensor key_lengths = {};
  /// Whether the caller has checked that the lengths are in 0 … J. Otherwise this call checks them; on a GPU, a wrong
  /// length is then an error of the next call that waits for the GPU.
  bool key_lengths_are_checked = false;
  /// Several documents in one row, in self-attention without a memory: the number of the document that each token
  /// belongs to, i32 or i64 [B, J] on the CPU; tokens of one document are neighbours. A query sees its own document
  /// only, and positions and lengths are those in the document, so that the result is that of documents in rows of
  /// their own.
  Tensor documents = {};
  /// Mask M with values in [0, 1], of any type, [B or 1, H or 1, I or 1, J]. Only some attention methods read it. On a
  /// GPU, another value is an error of the next call that waits for the GPU.
  Variable mask = {};
  /// Keys that queries may see, for every attention method: bool or u8 [B or 1, H or 1, I or 1, J], false where a query
  /// must not see a key. A query that sees no key has weights of 0. Lengths still count hidden keys, and terms that
  /// read all keys before there are weights, such as the pointers of window, still read them.
  Tensor allowed = {};
  /// The ends of a window that the caller gives for each query, for methods that read them (window(pointers=given)).
  /// Either positions among the keys that the query may see, i32 or i64 [B or 1, H or 1, I or 1], or distributions over
  /// the keys, of a floating-point type, [B or 1, H or 1, I or 1, J]. Undefined: the first key, and the last one that
  /// the query may see.
  Variable left_pointer = {}, right_pointer = {};
  /// Two-dimensional positions, as of the patches of an image, for methods that read them (relative_2d): row and column
  /// of each key's token, i32 or i64 [B or 1, J, 2] or [J, 2]. Query i belongs to token query_offset + i. Undefined:
  /// all tokens are in one row.
  Tensor grid = {};
  bool causal = false;  ///< whether a query sees only the keys up to its own position
  /// Position of the first query among the keys; > 0 in step-by-step decoding. At most 2^24, or 2^30 in f64.
  std::int64_t query_offset = 0;
  AttentionTrace* trace = nullptr;  ///< the call stores its intermediate results here, unless null
  /// Unless this is null, the caller adds the numbers [B, I] that the call stores here, if it stores any, to the rows
  /// of the result: 0, or NaN for a query that read a number out of range (layers/unseen_rows.h in attention/). A
  /// caller that reads the rows anyway saves a kernel. Null: the call adds them.
  Tensor* marks = nullptr;

  // Inputs of step-by-step decoding. All of them are optional.
  /// The decoder's input at the step of each query: the embedding of the previous token, [B, I, d_e].
  Variable step_input = {};
  /// The position among the keys on which flexible attention focused before the first query, [B] or [B, H]. If
  /// undefined, the focus is read from `memory`.
  Variable previous_focus = {};
  /// Keys, values and states of earlier calls; empty before the first call. With a memory, a causal call passes only
  /// the keys and values at the positions of its queries, because the memory holds the earlier keys and values. A call
  /// of cross-attention passes the whole source every time, although only the first call reads it.
  DecoderMemory* memory = nullptr;
  /// What the attentions of one call of a model have in common. Null: each computes it for itself.
  std::shared_ptr<SharedTensors> shared = {};

  /// Calls shared->once(), or only make() if there are no shared tensors.
  template <class Make>
  auto once(const std::string& name, const Make& make) const {
    return shared ? shared->once(name, make) : make();
  }
  /// Whether this call appends its keys and values to the keys and values in `memory`.
  bool appends_keys() const { return memory && causal; }
  /// Number of keys that the last query may see, including the keys in `memory`.
  std::int64_t key_count() const { return (appends_keys() ? query_offset : 0) + key.size(1); }
  /// Calls fovea::all_keys() with the memory and the causality of this call.
  template <class Make>
  Variable all_keys(const void* owner, Make&& make) const {
    return fovea::all_keys(memory, causal, owner, make);
  }
};

/// Construction parameters of an attention: its dimensions and its place in the model.
struct AttentionShape {
  std::int64_t model_dim = 512;  ///< model width d
  int heads = 8;                 ///< number of heads H; divides d unless head_dim is given
  std::int64_t head_dim = 0;     ///< D, width of the queries, keys and values of a head; 0 stands for d / H
  int layer = 0;                 ///< number of this layer, 0 … layers − 1
  int layers = 1;
  Place place = Place::encoder;
  double dropout = 0;  ///< probability with which an attention weight is dropped, in [0, 1)

  /// Widths of AttentionInput::query, key and value; 0 stands for model_dim. The queries of multi-head attention must
  /// have width model_dim.
  std::int64_t query_dim = 0, key_dim = 0, value_dim = 0;
  std::int64_t step_dim = 0;  ///< d_e, the width of AttentionInput::step_input; 0 if there is no step input
  /// Whether multi-head attention ends with the projection W^O. Without it the result is the heads side by side.
  bool output_projection = true;

  /// D: head_dim, or d / H; 0 without heads.
  std::int64_t width_of_head() const { return head_dim > 0 ? head_dim : heads > 0 ? model_dim / heads : 0; }
};

class Attention : public Module {
 public:
  /// Returns the attention's result for each query, [B, I, output_dim()].
  virtual Variable forward(const AttentionInput& input) = 0;
  /// The width of the result: d for multi-head attention, the width of the values for attention without projections.
  virtual std::int64_t output_dim() const = 0;
  /// The number of heads: the size of dimension 1 of AttentionTrace::weights.
  virtual std::int64_t heads() const = 0;
  /// Whether the result of cross-attention for a query depends only on that query and on the source, not on the query's
  /// position or on other queries. If so, a decoder can pass all hypotheses of a source as queries of one sentence.
  virtual bool has_independent_queries() const { return false; }
};

using AttentionFactory = std::function<std::unique_ptr<Attention>(const AttentionShape&)>;

}  // namespace fovea
