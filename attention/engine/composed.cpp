// The composed engine: plain operations on matrices [B, H, I, J]. It is slow and simple. Tests compare the fused engine
// with it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/engine/cpu/strip_recurrence.h"
#include "attention/engine/cpu/strip_score.h"
#include "attention/methods/score.h"
#include "tensor/comparison.h"

namespace fovea {

namespace {

/// [...] → [..., 1]
Tensor unsqueezed(const Tensor& x) {
  Shape shape = x.shape();
  shape.push_back(1);
  return x.reshape(shape);
}

/// a and b; an undefined one counts as true everywhere.
Tensor both(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return logical_and(a, b);
}

/// Softmax over the keys and one more logit per head, the sink, whose weight is left out. z [..., H, I, J], sink [H].
Variable softmax_with_sink(const Variable& z, const Tensor& allow, const Variable& sink) {
  std::int64_t J = z.size(-1);
  Shape one_key = z.shape();
  one_key[-1] = 1;
  Variable column = broadcast_to(reshape(sink, {z.size(-3), 1, 1}), one_key);
  Tensor with_sink;
  if (allow.defined()) {
    Shape shape = allow.shape();
    shape[shape.rank() - 1] = J + 1;
    with_sink = Tensor::full(shape, 1, DType::boolean, allow.device());
    with_sink.slice(-1, 0, J).copy_from(allow);
  }
  return slice(softmax(concat({z, column}, -1), with_sink), -1, 0, J);
}

/// The weights: softmax over the keys, or exp(z) for heads with densities.
Variable normalize(const Variable& z, const Tensor& allow, const Terms& terms) {
  auto softmax_over = [&](const Tensor& seen) {
    return terms.sink.defined() ? softmax_with_sink(z, seen, terms.sink) : softmax(z, seen);
  };
  if (!terms.densities.defined()) return softmax_over(allow);
  // exp(−inf) is exactly 0, and so is its gradient
  Variable nothing = Tensor::full({1}, -std::numeric_limits<double>::infinity(), z.dtype(), z.device());
  Variable densities = exp(where(both(allow, terms.densities), z, nothing));
  return softmax_over(both(allow, logical_not(terms.densities))) + densities;
}

/// The score s, [B, H, I, J], or one matrix per dimension of the values, [D, B, H, I, J].
Variable score_of(const AttentionContext& in, const Terms& terms) {
  return terms.score ? terms.score->composed(in) : DotScore(in.scale()).composed(in);
}

/// The logits z: the score with score terms and biases.
Variable logits_of(const AttentionContext& in, const Terms& terms) {
  Variable pairs = score_of(in, terms);
  for (const auto& score : terms.scores) pairs = score->composed(pairs, in);
  for (const auto& bias : terms.biases) pairs = bias->composed(pairs, in);
  return pairs;
}

}  // namespace

Variable weighted_sum(const Variable& weights, const Variable& value) {
  if (weights.rank() == 4) return matmul(weights, value, {.memory_order = {0, 2, 1, 3}});
  Variable dimensions = unsqueeze(permute(value, {3, 0, 1, 2}), -1);       // [D, B, H, J, 1]
  return permute(squeeze(matmul(weights, dimensions), -1), {1, 2, 3, 0});  // [B, H, I, D]
}

Variable with_dimensions_last(const Variable& pairs) {
  return pairs.rank() == 4 ? pairs : permute(pairs, {1, 2, 3, 4, 0});
}

double AttentionContext::scale() const { return 1 / std::sqrt(static_cast<double>(query.size(-1))); }

Variable AttentionContext::newest_key() const {
  std::int64_t J = key.size(2), newest = key_states.size(1);
  return newest == J ? key : slice(key, 2, J - newest, J);
}

Tensor allowed_pairs(const KeyRange& range, std::int64_t J) {
  auto reaches = [](const Tensor& bound, auto&& good) {
    std::vector<std::int64_t> values = bound.to_vector<std::int64_t>();
    return std::all_of(values.begin(), values.end(), good);
  };
  bool from_start = reaches(range.first, [](std::int64_t first) { return first <= 0; });
  bool to_end = reaches(range.end, [=](std::int64_t end) { return J <= end; });
  Tensor key = Tensor::arange(J, DType::i64), allow;
  if (!to_end) allow = less(key, unsqueezed(range.end));
  if (from_start) return allow;
  Tensor after = less_equal(unsqueezed(range.first), key);
  return allow.defined() ? logical_and(allow, after) : after;
}

Tensor AttentionContext::allow() const {
  Tensor allow = allowed_pairs(visible, key.size(2));
  return allow.defined() ? allow.to(query.device()) : allow;
}

Tensor allowed_keys(const AttentionContext& in, const Terms& terms) {
  std::int64_t J = in.key.size(2);
  Tensor window;
  for (const KeyRange& range : terms.ranges) window = both(window, allowed_pairs(range, J));
  for (const KeyRange& range : terms.always) {
    Tensor seen = allowed_pairs(range, J);
    if (window.defined()) window = seen.defined() ? logical_or(window, seen) : Tensor();
  }
  Tensor allow = both(allowed_pairs(in.visible, J), window);
  if (allow.defined()) allow = allow.to(in.query.device());
  for (const Tensor& mask : terms.masks) allow = both(allow, mask);
  return allow;
}

Tensor offset_index(const AttentionContext& in, std::int64_t clip) {
  std::int64_t I = in.query_positions.size(0), J = in.key_positions.size(0), first = in.query_offset;
  Tensor index = Tensor::empty({I, J}, DType::i64);
  std::int64_t* out = index.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < I; ++i)
    for (std::int64_t j = 0; j < J; ++j) *out++ = std::clamp(j - (i + first), -clip, clip) + clip;
  return index;
}

Variable spread(const Capture& capture, const AttentionContext& in) {
  const Variable& value = capture.value;
  switch (capture.per) {
    case Per::head:
      return reshape(value, {value.size(0), 1, 1});
    case Per::query:
      return unsqueeze(value, -1);
    case Per::key:
      return unsqueeze(value, -2);
    case Per::pair:
      return value;
    case Per::offset:
      break;
  }
  Tensor index = offset_index(in, capture.clip);
  if (value.rank() >= 2) return gather_last(value, index);
  // one table for all queries: broadcast to one row per query
  return gather_last(broadcast_to(reshape(value, {1, value.size(0)}), {index.size(0), value.size(0)}), index);
}

Variable PointwiseTerm::composed(const Variable& pairs, const AttentionContext& in) const {
  std::vector<Variable> x{pairs, unsqueeze(in.query_positions, 1), in.key_positions};
  for (const Capture& capture : captures_) x.push_back(spread(capture, in));
  return formula_.map(x);
}

Variable split_heads(const Variable& x, std::int64_t head_dim) {
  return transpose(reshape(x, {x.size(0), x.size(1), x.size(2) / head_dim, head_dim}), 1, 2);
}

Variable merge_heads(const Variable& x) {
  return reshape(transpose(x, 1, 2), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

void fill_trace(const AttentionContext& in, const Terms& terms, const Variable& weights, AttentionTrace& trace) {
  trace.weights = weights;
  if (terms.score && !terms.score->is_scaled_dot())
    trace.quantities.emplace_back("scores", with_dimensions_last(terms.score->composed(in)));
  for (auto& [name, compute] : terms.quantities) trace.quantities.emplace_back(name, compute());
}

Variable attend_composed(const AttentionContext& in, const Terms& terms, const AttentionDropout& weights_dropout,
                         AttentionTrace* trace) {
  if (terms.recurrence) {
    check_recurrence(terms);
    Variable out = weights_dropout.probability == 0 ? terms.recurrence->skipping(in, terms, trace) : Variable();
    if (out.defined()) return out;
  }
  Variable pairs = logits_of(in, terms);  // z [B, H, I, J]
  Tensor allow = allowed_keys(in, terms);
  pairs = terms.recurrence ? terms.recurrence->composed(pairs, allow, in) : normalize(pairs, allow, terms);  // a
  for (const auto& window : terms.windows) pairs = window->composed(pairs, in);                              // w
  if (trace) fill_trace(in, terms, with_dimensions_last(pairs), *trace);
  if (weights_dropout.probability > 0) pairs = dropout(pairs, weights_dropout.mask(pairs.size(-1)));
  Variable out = weighted_sum(pairs, in.value);  // [B, H, I, D]
  for (const auto& value : terms.values) out = out + value->composed(pairs, in);
  return out;
}

std::vector<std::unique_ptr<StripScore>> Score::strips(const AttentionContext&) const { return {}; }

std::unique_ptr<StripTerm> PairTerm::strips(const AttentionContext&) const { return nullptr; }

std::unique_ptr<StripValueTerm> ValueTerm::strips(const AttentionContext&) const { return nullptr; }

std::unique_ptr<StripRecurrence> Recurrence::strips(const AttentionContext&) { return nullptr; }

void check_recurrence(const Terms& terms) {
  require(!terms.sink.defined() && !terms.densities.defined(),
          "attention: a recurrent method such as flexible does not combine with sinks or densities on one attention");
}

void Terms::set_score(std::unique_ptr<Score> made) {
  require(!score, "attention: two scores on one head; a head has one of dot, scaled_dot, general, additive, ...");
  score = std::move(made);
}

void Terms::set_recurrence(std::unique_ptr<Recurrence> made) {
  require(!recurrence, "attention: two recurrent methods, such as flexible; an attention can have one");
  recurrence = std::move(made);
}

}  // namespace fovea
