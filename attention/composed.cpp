// The composed engine: plain operations on [B, H, I, J] matrices. Slow and obvious, and what every faster engine is
// checked against.
#include <cmath>

#include "attention/method.h"

namespace fovea {

double AttentionContext::scale() const { return 1 / std::sqrt(static_cast<double>(query.size(-1))); }

Tensor offset_index(const AttentionContext& in, std::int64_t clip) {
  std::int64_t I = in.query_positions.size(0), J = in.key_positions.size(0);
  auto first = static_cast<std::int64_t>(I ? in.query_positions.value().slice(0, 0, 1).item() : 0);
  Tensor index = Tensor::empty({I, J}, DType::i64);
  std::int64_t* out = index.data<std::int64_t>();
  for (std::int64_t i = 0; i < I; ++i)
    for (std::int64_t j = 0; j < J; ++j) *out++ = std::clamp(j - (i + first), -clip, clip) + clip;
  return index;
}

Variable PerOffset::spread(const AttentionContext& in) const {
  Tensor index = offset_index(in, clip);
  if (value.rank() >= 2) return gather_last(value, index);
  // One table for all: every query reads its own row of a broadcast.
  return gather_last(broadcast_to(reshape(value, {1, value.size(0)}), {index.size(0), value.size(0)}), index);
}

Variable split_heads(const Variable& x, std::int64_t head_dim) {
  return transpose(reshape(x, {x.size(0), x.size(1), x.size(2) / head_dim, head_dim}), 1, 2);
}

Variable merge_heads(const Variable& x) {
  return reshape(transpose(x, 1, 2), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

Variable attend_composed(const AttentionContext& in, const Terms& terms, double attention_dropout,
                         AttentionTrace* trace) {
  Variable pairs = matmul(in.query, transpose(in.key, -1, -2), {.scale = in.scale()});  // s, then z [B, H, I, J]
  for (const auto& bias : terms.biases) pairs = bias->composed(pairs, in);
  pairs = softmax(pairs, in.allow);                                              // a
  for (const auto& window : terms.windows) pairs = window->composed(pairs, in);  // w
  if (trace) {
    trace->weights = pairs;
    trace->quantities.insert(trace->quantities.end(), terms.quantities.begin(), terms.quantities.end());
  }
  pairs = dropout(pairs, attention_dropout);
  Variable out = matmul(pairs, in.value, {.memory_order = {0, 2, 1, 3}});  // [B, H, I, D]
  for (const auto& value : terms.values) out = out + value->composed(pairs, in);
  return out;
}

}  // namespace fovea
