#include "nn/encoder_classifier.h"

#include "autograd/operations.h"
#include "nn/lengths.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

namespace {

/// Returns the weights of a mean over the real positions of each sentence, [B, T, 1]: 1 / length at real positions, 0
/// at padding. Their type and device are those of `like`.
Tensor mean_weights(const Tensor& lengths, std::int64_t T, const Variable& like) {
  auto number = [&](double x) { return constant(x, DType::f64, like.device()); };
  const Tensor length = lengths.to(like.device()).to(DType::f64).reshape({-1, 1});
  const Tensor weights = where(real_positions(lengths, T, like.device()), map(Divide{}, number(1), length), number(0));
  return weights.to(like.dtype()).unsqueeze(2);
}

}  // namespace

EncoderClassifier::EncoderClassifier(const EncoderClassifierOptions& options, const AttentionFactory& attention)
    : pool_(options.pool),
      embedding_(options.vocabulary, options.encoder.model_dim, {.padding = 0, .scale = options.embedding_scale}),
      positions_(options.positions, options.encoder.model_dim, options.longest),
      norm_(options.embedding_norm
                ? make_norm(options.encoder.norm_kind, options.encoder.model_dim, options.encoder.norm_epsilon)
                : nullptr),
      encoder_(options.encoder, Place::encoder, encoder_layer(attention)),
      classifier_(options.encoder.model_dim, options.classes),
      dropout_(options.encoder.dropout) {
  child("embedding", embedding_);
  child("positions", positions_);
  if (norm_) child("norm", *norm_);
  child("encoder", encoder_);
  if (pool_ == Pool::first) child("pooler", pooler_.emplace(options.encoder.model_dim, options.encoder.model_dim));
  child("classifier", classifier_);
  child("dropout", dropout_);
}

Variable EncoderClassifier::forward(const Tensor& tokens, const Tensor& lengths, std::vector<AttentionTrace>* traces) {
  Scope scope = enter();
  require(tokens.rank() == 2, "EncoderClassifier: the tokens are {}; expected [B, T]", tokens);
  require_lengths("EncoderClassifier", lengths, tokens.size(0), 1, tokens.size(1));
  const Variable embedded = positions_.forward(embedding_.forward(tokens));
  const Variable states = encoder_.forward(
      {.states = dropout_.forward(norm_ ? norm_->forward(embedded) : embedded), .lengths = lengths, .traces = traces});
  return classifier_.forward(pooled(states, lengths));
}

Variable EncoderClassifier::pooled(const Variable& states, const Tensor& lengths) const {
  if (pooler_) return dropout_.forward(tanh(pooler_->forward(squeeze(slice(states, 1, 0, 1), 1))));
  if (pool_ == Pool::t2t) return mean(states, {1});
  return sum(states * Variable(mean_weights(lengths, states.size(1), states)), {1});
}

}  // namespace fovea
