#include "attention/methods/forgetting.h"

namespace fovea {

ForgettingAttention::ForgettingAttention(const MethodShape& shape, const Options&)
    : gate_(shape.key_state_dim, shape.heads) {
  require(shape.place == Place::decoder,
          "forgetting: a key's weight is multiplied by the gates of the tokens up to a later query; this is defined in "
          "the self-attention of a decoder only");
  child("gate", gate_);
}

void ForgettingAttention::add_terms(const AttentionContext& in, Plan& plan) {
  const std::int64_t first = in.query_offset, end = first + in.query.size(2), J = in.key.size(2);
  require(in.causal && end <= J,
          "forgetting: queries at the positions {} to {} with {} keys{}; expected causal attention with a key at the "
          "position of every query",
          first, end - 1, J, in.causal ? "" : ", not causal");
  const Variable gates =  // log f = log sigmoid(x) = −softplus(−x), [B, J, H]
      in.all_keys(&gate_, [&] { return -softplus(-in.project(gate_, in.key_states)); });
  const Variable total = cumulative_sum(transpose(gates, 1, 2));  // c [B, H, J]
  plan.biases.push_back(pointwise(DecayBias{}, PerQuery{slice(total, 2, first, end)}, PerKey{total}));
  plan.quantity("forget_gate", [gates] { return exp(transpose(gates, 1, 2)); });
}

}  // namespace fovea
