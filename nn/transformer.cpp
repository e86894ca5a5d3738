#include "nn/transformer.h"

#include "autograd/operations.h"

namespace fovea {

namespace {

AttentionShape attention_shape(const TransformerOptions& options, int layer, Place place) {
  return {.model_dim = options.model_dim,
          .heads = options.heads,
          .layer = layer,
          .layers = options.layers,
          .place = place,
          .dropout = options.attention_dropout};
}

FeedForward::Options feed_forward_options(const TransformerOptions& options) {
  return {.activation = options.activation, .dropout = options.feed_forward_dropout};
}

void check(const char* what, const Variable& x, const Tensor& lengths) {
  require(x.rank() == 3, "{}: the states are {}, not [B, T, d]", what, x);
  require(!lengths.defined() || (lengths.rank() == 1 && lengths.size(0) == x.size(0)),
          "{}: the lengths are {}, the states {}; there must be one for each of the {} sentences", what, lengths, x,
          x.size(0));
}

/// A sub-layer with its residual connection. f maps a state to a state.
template <class SubLayer>
Variable residual(const Variable& x, Norm kind, const LayerNorm& norm, const Dropout& dropout, SubLayer&& f) {
  if (kind == Norm::pre) return dropout.forward(f(norm.forward(x)), x);
  return norm.forward(dropout.forward(f(x), x));
}

std::unique_ptr<LayerNorm> stack_norm(const TransformerOptions& options) {
  bool wanted = options.norm == Norm::pre && options.final_norm;
  return wanted ? std::make_unique<LayerNorm>(options.model_dim) : nullptr;
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerOptions& options, int layer,
                                                 const AttentionFactory& attention)
    : norm_(options.norm),
      attention_(attention(attention_shape(options, layer, Place::encoder))),
      attention_norm_(options.model_dim),
      feed_forward_(options.model_dim, options.feed_forward_dim, feed_forward_options(options)),
      feed_forward_norm_(options.model_dim),
      dropout_(options.dropout) {
  child("attention", *attention_);
  child("attention_norm", attention_norm_);
  child("feed_forward", feed_forward_);
  child("feed_forward_norm", feed_forward_norm_);
  child("dropout", dropout_);
}

Variable TransformerEncoderLayer::forward(const Variable& x, const Tensor& lengths, AttentionTrace* trace) {
  Scope scope = enter();
  Variable attended = residual(x, norm_, attention_norm_, dropout_, [&](const Variable& h) {
    return attention_->forward({.query = h, .key = h, .value = h, .key_lengths = lengths, .trace = trace});
  });
  return residual(attended, norm_, feed_forward_norm_, dropout_,
                  [&](const Variable& h) { return feed_forward_.forward(h); });
}

TransformerEncoder::TransformerEncoder(const TransformerOptions& options, const AttentionFactory& attention)
    : norm_(stack_norm(options)) {
  for (int layer = 0; layer < options.layers; ++layer) {
    layers_.push_back(std::make_unique<TransformerEncoderLayer>(options, layer, attention));
    child(std::to_string(layer), *layers_.back());
  }
  if (norm_) child("norm", *norm_);
}

Variable TransformerEncoder::forward(const Variable& x, const Tensor& lengths, std::vector<AttentionTrace>* traces) {
  Scope scope = enter();
  check("encoder", x, lengths);
  if (traces) traces->assign(layers_.size(), {});
  Variable states = x;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    states = layers_[layer]->forward(states, lengths, traces ? &(*traces)[layer] : nullptr);
  return norm_ ? norm_->forward(states) : states;
}

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerOptions& options, int layer,
                                                 const AttentionFactory& attention, const AttentionFactory& cross)
    : norm_(options.norm),
      attention_(attention(attention_shape(options, layer, Place::decoder))),
      attention_norm_(options.model_dim),
      cross_(cross(attention_shape(options, layer, Place::cross))),
      cross_norm_(options.model_dim),
      feed_forward_(options.model_dim, options.feed_forward_dim, feed_forward_options(options)),
      feed_forward_norm_(options.model_dim),
      dropout_(options.dropout) {
  child("attention", *attention_);
  child("attention_norm", attention_norm_);
  child("cross", *cross_);
  child("cross_norm", cross_norm_);
  child("feed_forward", feed_forward_);
  child("feed_forward_norm", feed_forward_norm_);
  child("dropout", dropout_);
}

Variable TransformerDecoderLayer::forward(const Variable& x, const Tensor& lengths, const Variable& memory,
                                          const Tensor& memory_lengths, DecoderTrace* trace) {
  Scope scope = enter();
  Variable attended = residual(x, norm_, attention_norm_, dropout_, [&](const Variable& h) {
    return attention_->forward({.query = h,
                                .key = h,
                                .value = h,
                                .key_lengths = lengths,
                                .causal = true,
                                .trace = trace ? &trace->attention : nullptr});
  });
  Variable crossed = residual(attended, norm_, cross_norm_, dropout_, [&](const Variable& h) {
    return cross_->forward({.query = h,
                            .key = memory,
                            .value = memory,
                            .key_lengths = memory_lengths,
                            .trace = trace ? &trace->cross : nullptr});
  });
  return residual(crossed, norm_, feed_forward_norm_, dropout_,
                  [&](const Variable& h) { return feed_forward_.forward(h); });
}

TransformerDecoder::TransformerDecoder(const TransformerOptions& options, const AttentionFactory& attention,
                                       const AttentionFactory& cross)
    : norm_(stack_norm(options)) {
  for (int layer = 0; layer < options.layers; ++layer) {
    layers_.push_back(std::make_unique<TransformerDecoderLayer>(options, layer, attention, cross));
    child(std::to_string(layer), *layers_.back());
  }
  if (norm_) child("norm", *norm_);
}

Variable TransformerDecoder::forward(const Variable& x, const Tensor& lengths, const Variable& memory,
                                     const Tensor& memory_lengths, std::vector<DecoderTrace>* traces) {
  Scope scope = enter();
  check("decoder", x, lengths);
  check("decoder's memory", memory, memory_lengths);
  if (traces) traces->assign(layers_.size(), {});
  Variable states = x;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    states = layers_[layer]->forward(states, lengths, memory, memory_lengths, traces ? &(*traces)[layer] : nullptr);
  return norm_ ? norm_->forward(states) : states;
}

}  // namespace fovea
