/// A Transformer encoder that labels sentences: the "tiny" classifier of Nguyen et al. 2020, §5.3.
#pragma once
#include "nn/embedding.h"
#include "nn/transformer.h"

namespace fovea {

/// What is averaged over a sentence: its real tokens, or, as Tensor2Tensor does, every position, padding included.
enum class Pool { masked, t2t };

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
  std::int64_t longest = 512;  ///< learned positions
  Pool pool = Pool::masked;
};

/// embedding · sqrt(d) + positions, dropout, encoder, mean over the sentence, linear to the classes.
/// Parts: embedding, positions, encoder, classifier. Token 0 is padding.
class EncoderClassifier : public Module {
 public:
  EncoderClassifier(const EncoderClassifierOptions& options, const AttentionFactory& attention);

  /// tokens i32 [B, T], padded on the right with 0; lengths i32 [B], at least 1 → logits [B, classes]
  Variable forward(const Tensor& tokens, const Tensor& lengths, std::vector<AttentionTrace>* traces = nullptr);

 private:
  Variable mean_state(const Variable& states, const Tensor& lengths) const;

  Pool pool_;
  Embedding embedding_;
  PositionEncoding positions_;
  TransformerStack encoder_;
  Linear classifier_;
  Dropout dropout_;
};

}  // namespace fovea
