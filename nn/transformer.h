/// Stacks of Transformer layers around any attention (Vaswani et al. 2017). A layer is a list of sub-layers, each with
/// a residual connection and a norm of its own: that of an encoder, of a decoder, of a language model, or any other
/// order (Fan et al. 2021, section 4.3).
#pragma once
#include <memory>
#include <vector>

#include "nn/attention.h"
#include "nn/layers.h"

namespace fovea {

/// Where a sub-layer f is normalised: pre, x + drop(f(LN x)) with one more LN after the last layer; or post,
/// LN(x + drop(f(x))).
enum class Norm { pre, post };

struct TransformerOptions {
  int layers = 6;
  std::int64_t model_dim = 512;  ///< d
  int heads = 8;                 ///< H; divides d
  std::int64_t feed_forward_dim = 2048;
  Norm norm = Norm::pre;
  bool final_norm = true;  ///< of a pre-norm stack; some language models do without
  Activation activation = Activation::relu;
  double dropout = 0.1;             ///< of each sub-layer's output, and of the embeddings
  double attention_dropout = 0;     ///< of attention weights
  double feed_forward_dropout = 0;  ///< inside the feed-forward block
};

/// What a sub-layer does: attention among the states, attention over a source, or a feed-forward block.
struct SubLayer {
  enum class Kind { attention, cross, feed_forward };
  Kind kind = Kind::feed_forward;
  AttentionFactory attention = {};  ///< of the first two kinds
};
using SubLayers = std::vector<SubLayer>;

SubLayers encoder_layer(const AttentionFactory& attention);  ///< attention, feed-forward
SubLayers decoder_layer(const AttentionFactory& attention, const AttentionFactory& cross);

/// What a stack reads.
struct StackInput {
  Variable states;       ///< [B, T, d]
  Tensor lengths = {};   ///< i32 [B], the number of real states of each sentence; undefined: all T
  Variable source = {};  ///< what cross-attention looks at, [B, J, d]; a row for each source under GroupBySource
  Tensor source_lengths = {};
  /// Decoding step by step: the position of the first state. Earlier ones are in the memory, and are not read again.
  std::int64_t position = 0;
  DecoderMemory* memory = nullptr;
  std::vector<AttentionTrace>* traces = nullptr;  ///< gets what each attention computed, from the first layer on
};

/// The sub-layers of one layer. Parts: attention, cross and feed_forward, with attention_norm and so on; the second of
/// a kind is attention_2.
class TransformerLayer : public Module {
 public:
  /// Layer `layer` (0-based) of options.layers. `place`: encoder, or decoder, which sees no future.
  TransformerLayer(const TransformerOptions& options, int layer, Place place, const SubLayers& sub_layers);

  /// → [B, T, d]
  Variable forward(const StackInput& in);
  bool has_independent_queries() const;  ///< as Attention's, of all that look at a source

 private:
  struct Part {
    std::unique_ptr<Attention> attention;  // one of these two
    std::unique_ptr<FeedForward> feed_forward;
    bool cross = false;
    std::unique_ptr<LayerNorm> norm;
  };
  Variable attend(Part& part, const Variable& states, const StackInput& in);

  Norm norm_;
  bool causal_;
  std::vector<Part> parts_;
  Dropout dropout_;
};

/// A stack of layers, "0", "1", …, and the final "norm" of pre-norm ones.
class TransformerStack : public Module {
 public:
  TransformerStack(const TransformerOptions& options, Place place, const SubLayers& sub_layers);

  /// → [B, T, d]
  Variable forward(const StackInput& in);
  bool has_independent_queries() const;  ///< as Attention's, of all that look at a source

 private:
  void check(const StackInput& in) const;

  const char* what_;
  bool has_cross_;
  std::vector<std::unique_ptr<TransformerLayer>> layers_;
  std::unique_ptr<LayerNorm> norm_;
};

}  // namespace fovea
