/// A Transformer encoder that classifies sentences, such as the "tiny" classifier of Nguyen et al. 2020, section 5.3,
/// or, with Pool::first, BERT (Devlin et al. 2019).
#pragma once
#include "nn/embedding.h"
#include "nn/transformer.h"

namespace fovea {

/// The state of a sentence that is classified: the mean over its real tokens only (masked), the mean over all positions
/// of the batch, padding included, as in Tensor2Tensor (t2t), or tanh(x W + b) of its first token's state x, as in BERT
/// (first; Devlin et al. 2019).
enum class Pool { masked, t2t, first };

struct EncoderClassifierOptions {
  std::int64_t vocabulary = 0;
  std::int64_t classes = 2;
  TransformerOptions encoder = {.layers = 2,
                                .model_dim = 128,
                                .heads = 4,
                                .feed_forward_dim = 512,
                                .attention_dropout = 0.1,
                                .feed_forward_dropout = 0.1};
  Positions positions = Positions::sinusoidal;
  std::int64_t longest = 512;   ///< number of position vectors, if they are learned
  bool embedding_norm = false;  ///< whether to apply a norm, of the encoder's kind, to embedding + position
  bool embedding_scale = true;  ///< whether the embeddings have the factor sqrt(d)
  Pool pool = Pool::masked;
};

/// logits = dropout(pool(encoder(dropout(sqrt(d) · embedding_t + position_t)))) W + b; means have no dropout. Parts:
/// embedding, positions, encoder, classifier (W and b), dropout, and where they are asked for norm and pooler. Token 0
/// is padding.
class EncoderClassifier : public Module {
 public:
  EncoderClassifier(const EncoderClassifierOptions& options, const AttentionFactory& attention);

  /// Returns logits, [B, classes]. `tokens`, i32 [B, T], are padded on the right with 0; `lengths`, i32 [B], are in
  /// 1 … T. Throws Error for other lengths. Fills `traces` with one entry per layer, unless it is null.
  Variable forward(const Tensor& tokens, const Tensor& lengths, std::vector<AttentionTrace>* traces = nullptr);

 private:
  Variable pooled(const Variable& states, const Tensor& lengths) const;

  Pool pool_;
  Embedding embedding_;
  PositionEncoding positions_;
  std::unique_ptr<NormLayer> norm_;
  TransformerStack encoder_;
  std::optional<Linear> pooler_;  ///< of Pool::first
  Linear classifier_;
  Dropout dropout_;
};

}  // namespace fovea
