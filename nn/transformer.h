/// Transformer encoders and decoders around any attention (Vaswani et al. 2017).
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

/// Self-attention and a feed-forward block. Parts: attention, attention_norm, feed_forward, feed_forward_norm.
class TransformerEncoderLayer : public Module {
 public:
  /// Layer `layer` (0-based) of options.layers.
  TransformerEncoderLayer(const TransformerOptions& options, int layer, const AttentionFactory& attention);

  /// x [B, T, d] → [B, T, d]; lengths i32 [B], the number of real tokens of each sentence (undefined: all T).
  Variable forward(const Variable& x, const Tensor& lengths, AttentionTrace* trace = nullptr);

 private:
  Norm norm_;
  std::unique_ptr<Attention> attention_;
  LayerNorm attention_norm_;
  FeedForward feed_forward_;
  LayerNorm feed_forward_norm_;
  Dropout dropout_;
};

/// A stack of encoder layers, "0", "1", …, and the final "norm" of pre-norm ones.
class TransformerEncoder : public Module {
 public:
  TransformerEncoder(const TransformerOptions& options, const AttentionFactory& attention);

  /// As a layer's; `traces` gets one entry per layer.
  Variable forward(const Variable& x, const Tensor& lengths, std::vector<AttentionTrace>* traces = nullptr);

 private:
  std::vector<std::unique_ptr<TransformerEncoderLayer>> layers_;
  std::unique_ptr<LayerNorm> norm_;
};

/// What the attentions of one decoder layer computed.
struct DecoderTrace {
  AttentionTrace attention, cross;
};

/// Causal self-attention, cross-attention over the encoder's states, and a feed-forward block. Parts: attention,
/// attention_norm, cross, cross_norm, feed_forward, feed_forward_norm.
class TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(const TransformerOptions& options, int layer, const AttentionFactory& attention,
                          const AttentionFactory& cross);

  /// x [B, I, d], memory [B, J, d] → [B, I, d]; lengths of both, i32 [B] (undefined: nothing is padded).
  Variable forward(const Variable& x, const Tensor& lengths, const Variable& memory, const Tensor& memory_lengths,
                   DecoderTrace* trace = nullptr);

 private:
  Norm norm_;
  std::unique_ptr<Attention> attention_;
  LayerNorm attention_norm_;
  std::unique_ptr<Attention> cross_;
  LayerNorm cross_norm_;
  FeedForward feed_forward_;
  LayerNorm feed_forward_norm_;
  Dropout dropout_;
};

/// A stack of decoder layers, "0", "1", …, and the final "norm" of pre-norm ones.
class TransformerDecoder : public Module {
 public:
  TransformerDecoder(const TransformerOptions& options, const AttentionFactory& attention,
                     const AttentionFactory& cross);

  Variable forward(const Variable& x, const Tensor& lengths, const Variable& memory, const Tensor& memory_lengths,
                   std::vector<DecoderTrace>* traces = nullptr);

 private:
  std::vector<std::unique_ptr<TransformerDecoderLayer>> layers_;
  std::unique_ptr<LayerNorm> norm_;
};

}  // namespace fovea
