#include "attention/methods/differential.h"

namespace fovea {

DifferentialAttention::DifferentialAttention(const MethodShape& shape, const Options&)
    : head_dim_(shape.head_dim),
      lambda_init_(0.8 - 0.6 * std::exp(-0.3 * shape.layer)),
      query_(shape.model_dim, shape.heads * shape.head_dim),
      key_(shape.key_state_dim, shape.heads * shape.head_dim),
      lambda_q1_(parameter("lambda_q1", {head_dim_}, Initializer::normal(0.1))),
      lambda_k1_(parameter("lambda_k1", {head_dim_}, Initializer::normal(0.1))),
      lambda_q2_(parameter("lambda_q2", {head_dim_}, Initializer::normal(0.1))),
      lambda_k2_(parameter("lambda_k2", {head_dim_}, Initializer::normal(0.1))),
      gain_(parameter("gain", {shape.value_dim}, Initializer::ones())) {
  child("query", query_);
  child("key", key_);
}

void DifferentialAttention::add_layers(StateLayers& layers) const {
  layers.of_query.push_back(&query_);
  layers.of_key.push_back(&key_);
}

void DifferentialAttention::add_terms(const AttentionContext& in, Plan& plan) {
  const Variable queries = in.project(query_, in.query_states);
  const Variable keys = in.all_keys(&key_, [&] { return in.project(key_, in.key_states); });
  const Variable lambda =
      exp(sum(lambda_q1_ * lambda_k1_, {0}, true)) - exp(sum(lambda_q2_ * lambda_k2_, {0}, true)) + lambda_init_;
  plan.second_maps.push_back(
      {{.queries = split_heads(queries, head_dim_), .keys = split_heads(keys, head_dim_), .scale = in.scale()},
       {Per::head, -lambda}});
  plan.quantity("lambda", lambda);
}

Variable DifferentialAttention::finish(const Variable& heads, const AttentionContext&) {
  const Variable rms = sqrt(mean(square(heads), {-1}, true) + 1e-5);
  return heads / rms * (gain_ * (1 - lambda_init_));
}

}  // namespace fovea
