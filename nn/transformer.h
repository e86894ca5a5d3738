/// Stacks of Transformer layers (Vaswani et al. 2017) with any attention. A layer is a list of sub-layers, each with a
/// residual connection and a layer norm. An encoder layer usually has self-attention and feed-forward, a decoder layer
/// self-attention, cross-attention and feed-forward; any other list is possible (Fan et al. 2021, section 4.3).
///
/// Letters of shapes: B sentences, T states, J source states, d model width.
#pragma once
#include <memory>
#include <vector>

#include "nn/attention.h"
#include "nn/layers.h"

namespace fovea {

/// The place of the norm LN around a sub-layer f.
///   pre:  x + dropout(f(LN(x))), and one more LN after the last layer
///   post: LN(x + dropout(f(x)))
enum class Norm { pre, post };

/// Whether the backward pass computes intermediate results of the forward pass again, so that they need no memory in
/// between. With `layers`, only the input of each layer is kept. Losses and gradients have the same bits in both cases.
enum class Recompute { none, layers };

struct TransformerOptions {
  int layers = 6;
  std::int64_t model_dim = 512;  ///< d
  int heads = 8;                 ///< H; divides d unless head_dim is given
  std::int64_t head_dim = 0;     ///< AttentionShape::head_dim
  std::int64_t feed_forward_dim = 2048;
  Norm norm = Norm::pre;
  NormKind norm_kind = NormKind::layer;
  double norm_epsilon = 1e-5;  ///< is added to the variance, or to the mean square; at least 0
  bool final_norm = true;      ///< with Norm::pre: apply an LN after the last layer, which some language models omit
  Activation activation = Activation::relu;
  bool gated = false;  ///< whether the feed-forward blocks are gated
  // Dropout probabilities, in [0, 1).
  double dropout = 0.1;             ///< on the output of each sub-layer and on the embeddings
  double attention_dropout = 0;     ///< on the attention weights
  double feed_forward_dropout = 0;  ///< on the hidden layer of the feed-forward block
  Recompute recompute = Recompute::none;
};

/// A sub-layer: self-attention, cross-attention over a source, or a feed-forward block.
struct SubLayer {
  enum class Kind { attention, cross, feed_forward };
  Kind kind = Kind::feed_forward;
  AttentionFactory attention = {};  ///< constructs the attention; unused for feed_forward
};
using SubLayers = std::vector<SubLayer>;

/// The sub-layers of a usual encoder layer: self-attention, feed-forward.
SubLayers encoder_layer(const AttentionFactory& attention);
/// The sub-layers of a usual decoder layer: self-attention, cross-attention, feed-forward.
SubLayers decoder_layer(const AttentionFactory& attention, const AttentionFactory& cross);

/// The input of a layer or a stack.
struct StackInput {
  Variable states;      ///< input states, [B, T, d]
  Tensor lengths = {};  ///< number of real (not padding) states of each sentence, i32 [B]; if undefined, T each
  /// The states that cross-attention reads, [B, J, d]. Under DecoderMemory::GroupBySource it has one row per source.
  Variable source = {};
  Tensor source_lengths = {};        ///< number of real states of each source, i32 [B]; if undefined, J each
  bool lengths_are_checked = false;  ///< AttentionInput::key_lengths_are_checked; a stack sets it for its layers
  std::shared_ptr<SharedTensors> shared = {};  ///< AttentionInput::shared; a stack makes it for its layers
  std::int64_t position = 0;                   ///< position of the first state; > 0 in step-by-step decoding
  /// Keys and values of earlier positions, in step-by-step decoding; null otherwise.
  DecoderMemory* memory = nullptr;
  std::vector<AttentionTrace>* traces = nullptr;  ///< unless null, gets one entry per attention, in order
};

/// One layer. Parts (sub-modules): attention, cross and feed_forward, each with its norm, such as attention_norm.
/// Further sub-layers of the same kind have a number in their names: attention_2, attention_2_norm.
class TransformerLayer : public Module {
 public:
  /// `layer` is the number of this layer, 0 … options.layers − 1. `place` is Place::encoder or Place::decoder; in a
  /// decoder self-attention is causal.
  TransformerLayer(const TransformerOptions& options, int layer, Place place, const SubLayers& sub_layers);

  /// Returns the layer's output states, [B, T, d].
  Variable forward(const StackInput& in) { return forward({in.states}, in).sum(); }
  /// The same for the states x instead of in.states. The sum of the last residual connection is left to the caller.
  Residual forward(Residual x, const StackInput& in);
  /// Whether Attention::has_independent_queries() holds for every cross-attention.
  bool has_independent_queries() const;

 private:
  struct Part {
    std::unique_ptr<Attention> attention;  // null if feed_forward is set
    std::unique_ptr<FeedForward> feed_forward;
    bool cross = false;
    std::unique_ptr<NormLayer> norm;
  };
  Residual after(Part& part, const Residual& x, const StackInput& in);
  Variable attend(Part& part, const Variable& states, const StackInput& in, Tensor* marks);

  Norm norm_;
  bool causal_;
  std::vector<Part> parts_;
  Dropout dropout_;
};

/// A stack of layers. Parts (sub-modules): the layers, "0", "1", …, and "norm", the LN after the last layer, if there
/// is one.
class TransformerStack : public Module {
 public:
  TransformerStack(const TransformerOptions& options, Place place, const SubLayers& sub_layers);

  /// Returns the output states, [B, T, d]. Throws Error for states or lengths of other shapes than StackInput says, and
  /// for cross-attention without a source.
  Variable forward(const StackInput& in);
  /// Whether Attention::has_independent_queries() holds for every cross-attention.
  bool has_independent_queries() const;

 private:
  void check(const StackInput& in) const;
  Variable recomputed(TransformerLayer& layer, const StackInput& in) const;

  const char* what_;  ///< "encoder" or "decoder", for error messages
  bool has_cross_;
  Recompute recompute_;
  std::vector<std::unique_ptr<TransformerLayer>> layers_;
  std::unique_ptr<NormLayer> norm_;
};

}  // namespace fovea
