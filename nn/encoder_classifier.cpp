#include "nn/encoder_classifier.h"

#include <algorithm>

#include "autograd/operations.h"

namespace fovea {

namespace {

/// Returns the weights of a mean over the real positions of each sentence, [B, T, 1]: 1 / length at real positions, 0
/// at padding. Their type and device are those of `like`.
Tensor mean_weights(const Tensor& lengths, std::int64_t T, const Variable& like) {
  std::vector<std::int64_t> length = lengths.to_vector<std::int64_t>();
  std::vector<double> weights(length.size() * static_cast<std::size_t>(T), 0);
  for (std::size_t b = 0; b < length.size(); ++b) {
    require(1 <= length[b] && length[b] <= T,
            "EncoderClassifier: sentence {} has length {}; lengths must be in 1 ... {}", b, length[b], T);
    auto first = weights.begin() + static_cast<std::ptrdiff_t>(b) * T;
    std::fill(first, first + length[b], 1 / static_cast<double>(length[b]));
  }
  return Tensor::from(weights, {lengths.size(0), T, 1}).to(like.dtype()).to(like.device());
}

}  // namespace

EncoderClassifier::EncoderClassifier(const EncoderClassifierOptions& options, const AttentionFactory& attention)
    : pool_(options.pool),
      embedding_(options.vocabulary, options.encoder.model_dim, {.padding = 0, .scale = true}),
      positions_(options.positions, options.encoder.model_dim, options.longest),
      encoder_(options.encoder, Place::encoder, encoder_layer(attention)),
      classifier_(options.encoder.model_dim, options.classes),
      dropout_(options.encoder.dropout) {
  child("embedding", embedding_);
  child("positions", positions_);
  child("encoder", encoder_);
  child("classifier", classifier_);
  child("dropout", dropout_);
}

Variable EncoderClassifier::forward(const Tensor& tokens, const Tensor& lengths, std::vector<AttentionTrace>* traces) {
  Scope scope = enter();
  require(tokens.rank() == 2, "EncoderClassifier: the tokens are {}; expected [B, T]", tokens);
  Variable embedded = dropout_.forward(positions_.forward(embedding_.forward(tokens)));
  Variable states = encoder_.forward({.states = embedded, .lengths = lengths, .traces = traces});
  return classifier_.forward(mean_state(states, lengths));
}

Variable EncoderClassifier::mean_state(const Variable& states, const Tensor& lengths) const {
  if (pool_ == Pool::t2t) return mean(states, {1});
  return sum(states * Variable(mean_weights(lengths, states.size(1), states)), {1});
}

}  // namespace fovea
