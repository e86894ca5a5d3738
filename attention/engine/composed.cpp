#include "attention/engine/composed.h"

#include <algorithm>
#include <limits>

#include "autograd/operations.h"
#include "tensor/comparison.h"

namespace fovea {

namespace {

/// a and b; an undefined one counts as true everywhere.
Tensor both(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return logical_and(a, b);
}

/// x [B, h or 1, ...] for `heads`, extended by `other` for all other heads → [B, H, ...]; undefined stays undefined.
Tensor extend_to_all_heads(const Tensor& x, HeadRange heads, std::int64_t H, bool other) {
  if (!x.defined() || heads.count == 0 || heads.count == H) return x;
  Shape shape = x.shape();
  while (shape.rank() < 4) shape.insert(0, 1);
  const Tensor given = x.reshape(shape);
  shape[1] = H;
  Tensor out = Tensor::full(shape, other, x.dtype(), x.device());
  out.slice(1, heads.first, heads.first + heads.count).copy_from(given);
  return out;
}

/// The heads whose weights are exp(z), bool [H, 1, 1].
Tensor heads_with_densities(const Plan& plan, std::int64_t H, Device device) {
  Tensor out = Tensor::zeros({H, 1, 1}, DType::boolean, device);
  for (HeadRange part : plan.densities) {
    const HeadRange heads = resolved(part, H);
    out.slice(0, heads.first, heads.first + heads.count).fill(1);
  }
  return out;
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
Variable normalize(const Variable& z, const Tensor& allow, const Plan& plan) {
  auto softmax_over = [&](const Tensor& seen) {
    return plan.sink.defined() ? softmax_with_sink(z, seen, plan.sink) : softmax(z, seen);
  };
  if (plan.densities.empty()) return softmax_over(allow);
  const Tensor densities = heads_with_densities(plan, z.size(-3), z.device());
  // exp(−inf) is exactly 0, and so is its gradient
  Variable nothing = Tensor::full({1}, -std::numeric_limits<double>::infinity(), z.dtype(), z.device());
  return softmax_over(both(allow, logical_not(densities))) + exp(where(both(allow, densities), z, nothing));
}

/// The recurrence's weights on its heads, and the softmax on the others.
Variable recurrent_weights(const Variable& z, const Tensor& allow, const Plan& plan, const AttentionContext& in) {
  const std::int64_t H = in.query.size(1);
  const HeadRange heads = resolved(plan.recurrent_heads, H);
  if (heads.count == H) return plan.recurrence->composed(z, allow, in);
  Tensor own = allow;
  if (allow.defined() && allow.rank() == 4 && allow.size(1) > 1)
    own = allow.slice(1, heads.first, heads.first + heads.count);
  Variable weights = plan.recurrence->composed(slice_heads(z, heads), own, context_of_heads(in, heads));
  return replace_heads(softmax(z, allow), weights, heads);
}

/// If one piece has a matrix per dimension of the values, [D, B, h, I, J], broadcasts the others to that.
void broadcast_dimensions(std::vector<Variable>& pieces) {
  std::int64_t D = 0;
  for (const Variable& piece : pieces)
    if (piece.rank() == 5) D = piece.size(0);
  for (Variable& piece : pieces) {
    if (D == 0 || piece.rank() == 5) continue;
    Shape shape = piece.shape();
    shape.insert(0, D);
    piece = broadcast_to(piece, shape);
  }
}

/// The score s of all heads, [B, H, I, J], or one matrix per dimension of the values, [D, B, H, I, J].
Variable score_of(const AttentionContext& in, const Plan& plan) {
  const Tensor positions = Tensor::arange(in.key.size(2), DType::i64, in.query.device());
  std::vector<Variable> pieces;
  for (const Score& score : scores_of_all_heads(plan, in))
    pieces.push_back(score_logits(score, score.queries, score.keys, positions));
  if (pieces.size() == 1) return pieces[0];
  broadcast_dimensions(pieces);
  return concat(pieces, -3);
}

std::vector<Variable> values_of(const std::vector<Capture>& captures) {
  std::vector<Variable> values;
  for (const Capture& capture : captures) values.push_back(capture.value);
  return values;
}

/// The term on its heads; the other heads stay as they are.
Variable apply_on_heads(const PairTerm& term, const Variable& pairs, const AttentionContext& in) {
  const HeadRange heads = resolved(term.heads, in.query.size(1));
  if (heads.count == in.query.size(1)) return apply_term(term, pairs, in);
  return replace_heads(pairs, apply_term(term, slice_heads(pairs, heads), context_of_heads(in, heads)), heads);
}

/// The logits z: the score, its changes and biases.
Variable logits_of(const AttentionContext& in, const Plan& plan) {
  Variable pairs = score_of(in, plan);
  for (const PairTerm& change : plan.score_changes) pairs = apply_on_heads(change, pairs, in);
  for (const PairTerm& bias : plan.biases) pairs = apply_on_heads(bias, pairs, in);
  return pairs;
}

/// Σ_j w_ij R_r. Weights are first summed by offset, [..., I, 2 clip + 1].
Variable relative_values(const RelativeValues& values, const Variable& table, const Variable& weights,
                         const AttentionContext& in) {
  Variable by_offset = scatter_last(weights, offset_index(in, values.clip), 2 * values.clip + 1);
  if (weights.rank() == 4) return matmul(by_offset, table);
  return weighted_sum(by_offset, reshape(table, {1, 1, table.size(0), table.size(1)}));
}

/// What a value term adds to the output of all heads.
Variable value_of(const ValueTerm& term, const Variable& weights, const AttentionContext& in) {
  const std::int64_t H = in.query.size(1);
  const HeadRange heads = resolved(term.heads, H);
  const bool all = heads.count == H;
  const AttentionContext own = context_of_heads(in, heads);
  const Variable own_weights = all ? weights : slice_heads(weights, heads);
  const std::vector<Variable> captured = values_of(term.captures);
  Variable added;
  if (const auto* relative = std::get_if<RelativeValues>(&term.what))
    added = relative_values(*relative, captured[0], own_weights, own);
  else
    added = std::get<std::shared_ptr<const CustomValueTerm>>(term.what)->composed(own_weights, own, captured);
  if (all) return added;
  Shape shape = added.shape();
  shape[1] = H;
  return replace_heads(Tensor::zeros(shape, added.dtype(), added.device()), added, heads);
}

}  // namespace

Variable score_logits(const Score& score, const Variable& queries, const Variable& keys, const Tensor& positions) {
  auto hidden = [&] { return tanh(unsqueeze(queries, 3) + unsqueeze(keys, 2)); };  // [B, h, I, K, n]
  switch (score.form) {
    case Score::Form::product:
      return matmul(queries, transpose(keys, -1, -2), {.scale = score.scale});
    case Score::Form::hidden: {
      Variable column = unsqueeze(score.weight, -1);  // [n, 1] or [h, n, 1]
      if (score.weight.rank() == 2) column = unsqueeze(column, 1);
      return squeeze(matmul(hidden(), column), -1);
    }
    case Score::Form::hidden_by_dimension: {
      Variable weight = score.weight.rank() == 2 ? score.weight : unsqueeze(score.weight, 1);  // [h, 1, n, D]
      return permute(matmul(hidden(), weight), {4, 0, 1, 2, 3});
    }
    case Score::Form::location: {
      // keys beyond the table are masked; they read its last entry
      Tensor last = Tensor::full({1}, static_cast<double>(queries.size(-1) - 1), DType::i64, positions.device());
      return gather_last(queries, where(less(positions, last), positions, last));
    }
    case Score::Form::none:
      return Tensor::zeros({queries.size(0), queries.size(1), queries.size(2), keys.size(2)}, queries.dtype(),
                           queries.device());
    case Score::Form::custom:
      break;
  }
  return score.custom->logits(queries, keys, score.weight, positions);
}

Variable apply_term(const PairTerm& term, const Variable& pairs, const AttentionContext& in) {
  const std::vector<Variable> captured = values_of(term.captures);
  if (const auto* formula = std::get_if<PointwiseFormula>(&term.what)) {
    std::vector<Variable> x{pairs, unsqueeze(in.query_positions, 1), in.key_positions};
    for (const Capture& capture : term.captures) x.push_back(spread(capture, in));
    return formula->map(x);
  }
  if (const auto* window = std::get_if<PointerWindow>(&term.what)) return apply_window(*window, pairs, captured, in);
  if (std::holds_alternative<Renormalization>(term.what)) {
    Variable total = sum(pairs, {-1}, true);
    return pairs / maximum(total, Tensor::full({1}, Renormalization::least, total.dtype(), total.device()));
  }
  return std::get<std::shared_ptr<const CustomTerm>>(term.what)->composed(pairs, in, captured);
}

Variable weighted_sum(const Variable& weights, const Variable& value) {
  if (weights.rank() == 4) return matmul(weights, value, {.memory_order = {0, 2, 1, 3}});
  Variable dimensions = unsqueeze(permute(value, {3, 0, 1, 2}), -1);       // [D, B, H, J, 1]
  return permute(squeeze(matmul(weights, dimensions), -1), {1, 2, 3, 0});  // [B, H, I, D]
}

Variable with_dimensions_last(const Variable& pairs) {
  return pairs.rank() == 4 ? pairs : permute(pairs, {1, 2, 3, 4, 0});
}

Tensor allowed_keys(const AttentionContext& in, const Plan& plan) {
  const std::int64_t H = in.query.size(1), J = in.key.size(2);
  Tensor window;
  for (const HeadKeys& range : plan.ranges)
    window = both(window, extend_to_all_heads(allowed_pairs(range.keys, J), range.heads, H, true));
  for (const HeadKeys& range : plan.always) {
    Tensor seen = allowed_pairs(range.keys, J);
    if (!seen.defined()) seen = Tensor::full({1, 1, 1, J}, 1, DType::boolean, in.query.device());
    if (window.defined()) window = logical_or(window, extend_to_all_heads(seen, range.heads, H, false));
  }
  Tensor allow = both(allowed_pairs(in.visible, J), window);
  for (const HeadMask& mask : plan.masks) allow = both(allow, extend_to_all_heads(mask.mask, mask.heads, H, true));
  return allow;
}

Tensor offset_index(const AttentionContext& in, std::int64_t clip) {
  const Tensor &query = in.query_positions.value(), &key = in.key_positions.value();
  const auto far = static_cast<double>(clip);
  auto number = [&](double x) { return Tensor::full({1}, x, query.dtype(), query.device()); };
  const Tensor distance = map(Subtract{}, key, query.unsqueeze(1));  // [I, J]
  const Tensor clipped = map(Minimum{}, map(Maximum{}, distance, number(-far)), number(far));
  return map(Affine{1, far}, clipped).to(DType::i64);
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
    case Per::query_vector:
    case Per::key_vector:
    case Per::whole:
      return value;
    case Per::offset:
      break;
  }
  Tensor index = offset_index(in, capture.clip);
  if (value.rank() >= 2) return gather_last(value, index);
  // one table for all queries: broadcast to one row per query
  return gather_last(broadcast_to(reshape(value, {1, value.size(0)}), {index.size(0), value.size(0)}), index);
}

void fill_trace(const AttentionContext& in, const Plan& plan, const Variable& weights, AttentionTrace& trace) {
  trace.weights = weights;
  if (std::any_of(plan.scores.begin(), plan.scores.end(), [](const Score& score) { return !score.is_default; }))
    trace.quantities.emplace_back("scores", with_dimensions_last(score_of(in, plan)));
  for (auto& [name, compute] : plan.quantities) trace.quantities.emplace_back(name, compute());
}

Variable attend_composed(const AttentionContext& in, const Plan& plan, const AttentionDropout& weights_dropout,
                         AttentionTrace* trace) {
  if (plan.recurrence) {
    check_recurrence(plan);
    const bool all_heads = resolved(plan.recurrent_heads, in.query.size(1)).count == in.query.size(1);
    if (all_heads && weights_dropout.probability == 0) {
      Variable out = plan.recurrence->skipping(in, plan, trace);
      if (out.defined()) return out;
    }
  }
  Variable pairs = logits_of(in, plan);  // z [B, H, I, J]
  Tensor allow = allowed_keys(in, plan);
  pairs = plan.recurrence ? recurrent_weights(pairs, allow, plan, in) : normalize(pairs, allow, plan);  // a
  for (const PairTerm& window : plan.windows) pairs = apply_on_heads(window, pairs, in);                // w
  if (trace) fill_trace(in, plan, with_dimensions_last(pairs), *trace);
  if (weights_dropout.probability > 0) pairs = dropout(pairs, weights_dropout.mask(pairs.size(-1)));
  Variable out = weighted_sum(pairs, in.value);  // [B, H, I, D]
  for (const ValueTerm& value : plan.values) out = out + value_of(value, pairs, in);
  return out;
}

void check_recurrence(const Plan& plan) {
  require(!plan.sink.defined() && plan.densities.empty(),
          "attention: a recurrent method such as flexible does not combine with sinks or densities on one attention");
}

}  // namespace fovea
