#include "attention/engine/composed.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "attention/engine/check_plan.h"
#include "attention/engine/lowered.h"
#include "autograd/node.h"
#include "autograd/operations.h"
#include "tensor/comparison.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

namespace {

/// a ∧ b for masks, where an undefined mask is true everywhere.
Tensor both(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return logical_and(a, b);
}

/// A mask of all heads [B, H, ...]: x [B, h or 1, ...] on `heads` and `other` on all other heads. Undefined if x is.
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

/// The pairs with positions i and j for which `step` divides j − i: bool [1, 1, I, J].
Tensor dilated_pairs(const AttentionContext& in, std::int64_t step) {
  const auto by = static_cast<double>(step);
  auto residue = [&](const Variable& positions) {
    const Tensor t = positions.value().to(DType::f64);
    const Tensor whole = map(Floor{}, map(Affine{1 / by, 0.5 / by}, t));  // + 0.5 / step: protects exact multiples
    return map(Subtract{}, t, map(Affine{by, 0}, whole));
  };
  const Tensor query = residue(in.query_positions), key = residue(in.key_positions);
  return equal(key.reshape({1, 1, 1, key.size(0)}), query.reshape({1, 1, query.size(0), 1}));
}

/// x [..., H, rows, columns] with its slice of these heads replaced by change(slice).
template <class Change>
Variable change_heads(const Variable& x, HeadRange heads, const Change& change) {
  heads = resolved(heads, x.size(-3));
  return replace_heads(x, change(slice_heads(x, heads)), heads);
}

/// The part of the mask `allow` that belongs to these heads; undefined if `allow` is.
Tensor allow_of_heads(const Tensor& allow, HeadRange heads) {
  if (!allow.defined() || allow.rank() < 3 || allow.size(-3) == 1 || heads.count == 0) return allow;
  return allow.slice(-3, heads.first, heads.first + heads.count);
}

Variable minus_infinity(const Variable& like) {
  return Tensor::full({1}, -std::numeric_limits<double>::infinity(), like.dtype(), like.device());
}

/// The mask `allow` with `more` additional columns that are true everywhere; undefined if `allow` is.
Tensor with_columns(const Tensor& allow, std::int64_t more) {
  if (!allow.defined() || more == 0) return allow;
  Shape shape = allow.shape();
  const std::int64_t J = shape[shape.rank() - 1];
  shape[shape.rank() - 1] = J + more;
  Tensor wider = Tensor::full(shape, 1, DType::boolean, allow.device());
  wider.slice(-1, 0, J).copy_from(allow);
  return wider;
}

/// The logits of extra keys and sinks, [B, H, I, N]: those of the plan's ExtraKeys in order, then one column for the
/// sinks. −inf for heads that have none; undefined if no head has any.
Variable logits_without_tokens(const AttentionContext& in, const Plan& plan) {
  std::vector<Variable> columns;
  const Shape& q = in.query.shape();
  for (const ExtraKeys& part : plan.extra_keys) {
    const HeadRange heads = resolved(part.heads, q[1]);
    const Variable none = broadcast_to(minus_infinity(in.query), {q[0], q[1], q[2], part.keys.size(1)}),
                   own = matmul(slice_heads(in.query, heads), transpose(part.keys, -1, -2), {.scale = in.scale()});
    columns.push_back(replace_heads(none, own, heads));
  }
  if (plan.sink.defined()) columns.push_back(broadcast_to(reshape(plan.sink, {q[1], 1, 1}), {q[0], q[1], q[2], 1}));
  return columns.empty() ? Variable() : concat(columns, -1);
}

/// The weights of all heads from the logits z, by the softmax or the plan's normalisers, over the keys in `allow`. The
/// first `tokens` columns belong to tokens.
Variable normalize(const Variable& z, std::int64_t tokens, const Tensor& allow, const Plan& plan) {
  // One softmax computes all heads; then heads with another normaliser are replaced.
  Variable weights;
  if (plan.normalizers.size() != 1 || resolved(plan.normalizers[0].heads, z.size(-3)).count != z.size(-3))
    weights = softmax(z, allow);
  for (const Normalizer& part : plan.normalizers) {
    const HeadRange heads = resolved(part.heads, z.size(-3));
    const Variable own = slice_heads(z, heads);
    const Tensor seen = allow_of_heads(allow, heads);
    Variable made;
    if (part.form == Normalizer::Form::custom)
      made = checked_result("a CustomNormalizer", part.custom->weights(own, tokens, seen, values_of(part.captures)),
                            own.shape());
    else {  // exp(−inf) is exactly 0, and so is its gradient
      const Variable bounded = minimum(own, Tensor::full({1}, Normalizer::largest_exponent, own.dtype(), own.device()));
      made = exp(seen.defined() ? where(seen, bounded, minus_infinity(own)) : bounded);
    }
    weights = weights.defined() ? replace_heads(weights, made, heads) : made;
  }
  return weights;
}

/// The logits z, then the columns `more` of extra keys and sinks; z itself if they are undefined.
Variable with_logits(const Variable& z, const Variable& more) {
  if (!more.defined()) return z;
  if (z.rank() == 4) return concat({z, more}, -1);
  Shape shape = more.shape();
  shape.insert(0, z.size(0));
  return concat({z, broadcast_to(more, shape)}, -1);
}

/// normalize() of the logits z together with the columns `more` of extra keys and sinks, which come last in the result.
Variable normalize_with(const Variable& z, const Tensor& allow, const Variable& more, const Plan& plan) {
  const Variable all = with_logits(z, more);
  return normalize(all, z.size(-1), with_columns(allow, all.size(-1) - z.size(-1)), plan);
}

/// Σ_g matrix_hg x_g for x [..., h, I, J] and a matrix [h, h].
Variable mix_heads(const Variable& x, const Variable& matrix) {
  const Shape shape = x.shape();
  const int rank = x.rank();
  Shape folded;
  for (int d = 0; d < rank - 2; ++d) folded.push_back(shape[d]);
  folded.push_back(shape[rank - 2] * shape[rank - 1]);
  return reshape(matmul(matrix, reshape(x, folded)), shape);
}

/// mix_heads() of logits. Where a head does not see a key, by `allow` or because the logit is −inf, it contributes 0 to
/// the logits of the other heads. A logit of −inf stays −inf.
Variable mix_logits(const Variable& z, const Variable& matrix, const Tensor& allow) {
  const Variable nothing = minus_infinity(z), zero = Tensor::zeros({1}, z.dtype(), z.device());
  const Tensor closed = equal(z.value(), nothing.value());
  const Tensor hidden = allow.defined() ? logical_or(closed, logical_not(allow)) : closed;
  return where(closed, nothing, mix_heads(where(hidden, zero, z), matrix));
}

/// The weights of a plan with a focus: focused_softmax() on the heads of the focus, the plain softmax on the others.
AttentionWeights focused_weights(const Variable& z, const Tensor& allow, const Plan& plan, const AttentionContext& in) {
  const HeadRange heads = resolved(plan.focus->heads, in.query.size(1));
  const FocusedWeights made =
      focused_softmax(*plan.focus, slice_heads(z, heads), allow_of_heads(allow, heads), context_of_heads(in, heads));
  const bool are_all = heads.count == in.query.size(1);
  return {are_all ? made.weights : replace_heads(softmax(z, allow), made.weights, heads), {}, made.focus};
}

/// If one of the pieces has a matrix for each dimension of the values, [D, B, h, I, J], broadcasts the others to that
/// shape.
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

/// The logits of all heads before any change, [B, H, I, J] or [D, B, H, I, J].
Variable logits_of_scores(const Plan& plan, const AttentionContext& in) {
  const std::vector<Score> scores = scores_of_all_heads(plan, in);
  const bool reads_positions =
      std::any_of(scores.begin(), scores.end(), [](const Score& score) { return score.form == Score::Form::location; });
  Tensor positions;
  if (reads_positions)
    positions = in.key_positions.defined() ? in.key_positions.value().to(DType::i64)
                                           : Tensor::arange(in.key.size(2), DType::i64, in.query.device());
  std::vector<Variable> pieces;
  for (const Score& score : scores) pieces.push_back(score_logits(score, positions));
  if (pieces.size() == 1) return pieces[0];
  broadcast_dimensions(pieces);
  return concat(pieces, -3);
}

/// Applies the term to its heads of `pairs`; the other heads are not changed.
Variable apply_on_heads(const PairTerm& term, const Variable& pairs, const AttentionContext& in) {
  const HeadRange heads = resolved(term.heads, in.query.size(1));
  if (heads.count == in.query.size(1)) return apply_term(term, pairs, in);
  return replace_heads(pairs, apply_term(term, slice_heads(pairs, heads), context_of_heads(in, heads)), heads);
}

/// The logits z from the scores: applies score changes, biases and HeadMixing::before.
Variable logits_of(Variable pairs, const Tensor& allow, const AttentionContext& in, const Plan& plan) {
  for (const PairTerm& change : plan.score_changes) pairs = apply_on_heads(change, pairs, in);
  for (const PairTerm& bias : plan.biases) pairs = apply_on_heads(bias, pairs, in);
  for (const HeadMixing& part : plan.mixings)
    if (part.before.defined())
      pairs = change_heads(pairs, part.heads, [&](const Variable& own) {
        return mix_logits(own, part.before, allow_of_heads(allow, part.heads));
      });
  return pairs;
}

/// The weights after the normaliser, with second maps added, before windows.
AttentionWeights weights_of_maps(const AttentionContext& in, const Plan& plan) {
  const Tensor allow = allowed_keys(in, plan);
  const Variable z = logits_of(logits_of_scores(plan, in), allow, in, plan);
  if (plan.focus) return focused_weights(z, allow, plan, in);
  const Variable more = logits_without_tokens(in, plan);
  Variable weights = normalize_with(z, allow, more, plan);
  for (const SecondMap& part : plan.second_maps) {
    const HeadRange heads = resolved(part.heads, in.query.size(1));
    Plan only;
    only.scores = {part.score};
    only.scores[0].heads = heads;
    const Variable second = normalize_with(logits_of(logits_of_scores(only, in), allow, in, plan), allow, more, plan);
    const Variable of_heads = slice_heads(second, heads);
    const Variable factor = spread(part.factor, context_of_heads(in, heads));
    weights = change_heads(weights, heads, [&](const Variable& own) { return own + factor * of_heads; });
  }
  const std::int64_t J = in.key.size(2);
  if (weights.size(-1) == J) return {weights, {}, {}};
  return {slice(weights, -1, 0, J), slice(weights, -1, J, weights.size(-1)), {}};
}

/// Σ_j w_ij v_j, [B, H, I, D], for value [B, H, J, D] and weights [B, H, I, J], or [D, B, H, I, J] with a matrix of
/// weights for each dimension of the values.
Variable weighted_sum(const Variable& weights, const Variable& value) {
  if (weights.rank() == 4) return matmul(weights, value, {.memory_order = {0, 2, 1, 3}});
  Variable dimensions = unsqueeze(permute(value, {3, 0, 1, 2}), -1);       // [D, B, H, J, 1]
  return permute(squeeze(matmul(weights, dimensions), -1), {1, 2, 3, 0});  // [B, H, I, D]
}

/// The index into a PerOffset table of each pair, clip(j − i, −clip, clip) + clip: i64 [I, J].
Tensor offset_index(const AttentionContext& in, std::int64_t clip) {
  const Tensor &query = in.query_positions.value(), &key = in.key_positions.value();
  const auto far = static_cast<double>(clip);
  auto number = [&](double x) { return Tensor::full({1}, x, query.dtype(), query.device()); };
  const Tensor distance = map(Subtract{}, key, query.unsqueeze(1));  // [I, J]
  const Tensor clipped = map(Minimum{}, map(Maximum{}, distance, number(-far)), number(far));
  return map(Affine{1, far}, clipped).to(DType::i64);
}

/// Σ_j w_ij R_r for all H heads: zeros on heads that the term does not act on. Weights of equal r are added first,
/// [..., I, 2 clip + 1], which avoids a tensor of size I · J · D.
Variable relative_values(const RelativeValues& term, const Variable& all_weights, const AttentionContext& in) {
  const std::int64_t H = in.query.size(1);
  const HeadRange heads = resolved(term.heads, H);
  const Variable weights = slice_heads(all_weights, heads);
  const Variable by_offset = scatter_last(weights, offset_index(in, term.clip), 2 * term.clip + 1),
                 &table = term.captures[0].value;
  const Variable added = weights.rank() == 4
                             ? matmul(by_offset, table)
                             : weighted_sum(by_offset, reshape(table, {1, 1, table.size(0), table.size(1)}));
  if (heads.count == H) return added;
  Shape shape = added.shape();
  shape[1] = H;
  return replace_heads(Tensor::zeros(shape, added.dtype(), added.device()), added, heads);
}

}  // namespace

Variable score_logits(const Score& score, const Tensor& positions) {
  const Variable &queries = score.queries, &keys = score.keys;
  auto hidden = [&] { return tanh(unsqueeze(queries, 3) + unsqueeze(keys, 2)); };  // [B, h, I, J, n]
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
      // keys beyond the table read its last entry; LocationScoring masks them
      Tensor last = Tensor::full({1}, static_cast<double>(queries.size(-1) - 1), DType::i64, positions.device());
      return gather_last(queries, where(less(positions, last), positions, last));
    }
    case Score::Form::none:
      break;
  }
  return Tensor::zeros({queries.size(0), queries.size(1), queries.size(2), keys.size(2)}, queries.dtype(),
                       queries.device());
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
  const auto& custom = std::get<std::shared_ptr<const CustomTerm>>(term.what);
  return checked_result("a CustomTerm", custom->composed(pairs, in, captured), pairs.shape());
}

Variable with_dimensions_last(const Variable& pairs) {
  return pairs.rank() == 4 ? pairs : permute(pairs, {1, 2, 3, 4, 0});
}

Tensor allowed_keys(const AttentionContext& in, const Plan& plan) {
  const std::int64_t H = in.query.size(1), J = in.key.size(2);
  Tensor window;
  for (const HeadKeys& range : plan.ranges)
    window = both(window, extend_to_all_heads(allowed_pairs(range.keys, J), range.heads, H, true));
  for (const HeadDilation& part : plan.dilations)
    window = both(window, extend_to_all_heads(dilated_pairs(in, part.step), part.heads, H, true));
  for (const HeadKeys& range : plan.always) {
    Tensor seen = allowed_pairs(range.keys, J);
    if (!seen.defined()) seen = Tensor::full({1, 1, 1, J}, 1, DType::boolean, in.query.device());
    if (window.defined()) window = logical_or(window, extend_to_all_heads(seen, range.heads, H, false));
  }
  Tensor allow = both(allowed_pairs(in.visible, J), window);
  for (const HeadMask& part : plan.masks) {
    Tensor mask = part.mask;  // u8 is converted to bool, because logical operations take bool only
    if (mask.dtype() == DType::u8) mask = greater(mask, Tensor::zeros({1}, DType::u8, mask.device()));
    allow = both(allow, extend_to_all_heads(mask, part.heads, H, true));
  }
  return allow;
}

Variable spread(const Capture& capture, const AttentionContext& in) {
  const Variable& value = capture.value;
  switch (capture.per) {
    case Per::head:
      return reshape(value, {value.value().elements(), 1, 1});
    case Per::query:
      return unsqueeze(value, -1);
    case Per::key:
      return value.rank() == 0 ? value : unsqueeze(value, -2);
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
  // a table [2 clip + 1] serves all queries: give each query a row of its own
  return gather_last(broadcast_to(reshape(value, {1, value.size(0)}), {index.size(0), value.size(0)}), index);
}

namespace {

/// Logits of all pairs, and which keys each query sees; an undefined mask is true everywhere.
struct SeenLogits {
  Variable z;
  Tensor allow;
  /// z, −inf where a query does not see a key.
  Variable masked() const { return allow.defined() ? where(allow, z, minus_infinity(z)) : z; }
};

/// The logits that the normaliser gets, from logits_of_scores(). If the plan has a focus, they have its penalty, and
/// queries see the keys in its window alone; `focus` is the focus after each query.
SeenLogits seen_logits(const Variable& scores, const AttentionContext& in, const Plan& plan, const Variable& focus) {
  const Tensor allow = allowed_keys(in, plan);
  const Variable z = logits_of(scores, allow, in, plan);
  if (!plan.focus) return {z, allow};
  const HeadRange heads = resolved(plan.focus->heads, in.query.size(1));
  const AttentionContext own = context_of_heads(in, heads);
  const Variable penalty = focus_penalty(*plan.focus, focus.value(), own);
  const Tensor ends = focus_windows(*plan.focus, focus.value(), own);
  const KeyRange window{ends.select(3, 0).to(DType::i32), map(Affine{1, 1}, ends.select(3, 1)).to(DType::i32)};
  const Tensor near = extend_to_all_heads(allowed_pairs(window, in.key.size(2)), heads, in.query.size(1), true);
  return {change_heads(z, heads, [&](const Variable& of_heads) { return of_heads - penalty; }), both(allow, near)};
}

/// The parts of the equation for TracedEquationScope. `focus` is the focus after each query, of a plan that has one.
void trace_equation(const AttentionContext& in, const Plan& plan, const Variable& focus, AttentionTrace& trace) {
  Plan changes;  // of the scores alone
  changes.score_changes = plan.score_changes;
  const Variable plain = logits_of_scores(plan, in);
  const Variable scores = logits_of(plain, allowed_keys(in, plan), in, changes);
  const SeenLogits logits = seen_logits(plain, in, plan, focus);
  const Tensor one = Tensor::full(scores.shape(), 1, scores.dtype(), scores.device());
  const Tensor zero = Tensor::zeros({1}, scores.dtype(), scores.device());
  const auto add = [&](const char* name, const Variable& pairs) {
    trace.quantities.push_back({name, with_dimensions_last(pairs), 0, in.query.size(1)});
  };
  // In place of those of some heads, which a method has traced.
  std::erase_if(trace.quantities, [](const TracedQuantity& quantity) { return quantity.name == "scores"; });
  add("scores", scores);
  add("logits", logits.masked());
  add("bias", logits.z - scores);
  add("seen", logits.allow.defined() ? where(logits.allow, Variable(one), zero) : Variable(one));
  Variable factor = one;
  bool has_factor = false;
  for (const PairTerm& window : plan.windows) {
    if (std::holds_alternative<Renormalization>(window.what)) continue;  // no factor of a pair
    const auto* formula = std::get_if<PointwiseFormula>(&window.what);
    if (formula ? !is_linear_in(formula->value(), 0) : !std::holds_alternative<PointerWindow>(window.what)) return;
    factor = apply_on_heads(window, factor, in);
    has_factor = true;
  }
  if (has_factor) add("window_factor", factor);
}

}  // namespace

RowQuantities row_quantities(const AttentionContext& in, const Plan& plan, const AttentionWeights& weights) {
  NoGrad off;
  const Variable z = seen_logits(logits_of_scores(plan, in), in, plan, weights.focus).masked();
  return row_quantities(with_logits(z, logits_without_tokens(in, plan)).value(), weights.tokens.value());
}

void fill_trace(const AttentionContext& in, const Plan& plan, const Variable& weights, const Variable& focus,
                AttentionTrace& trace) {
  trace.weights = weights;
  const auto add = [&](const std::string& name, const Variable& value, HeadRange heads) {
    heads = resolved(heads, in.query.size(1));
    trace.quantities.push_back({name, value, heads.first, heads.count});
  };
  if (std::any_of(plan.scores.begin(), plan.scores.end(), [](const Score& score) { return !score.is_default; }))
    add("scores", with_dimensions_last(logits_of_scores(plan, in)), {});
  for (const PlanQuantity& quantity : plan.quantities) add(quantity.name, quantity.compute(), quantity.heads);
  // without weights, mixers replace the equation on all heads
  if (TracedEquationScope::is_open() && weights.defined()) trace_equation(in, plan, focus, trace);
  if (!plan.focus) return;
  const AttentionContext own = context_of_heads(in, resolved(plan.focus->heads, in.query.size(1)));
  add("focus", focus, plan.focus->heads);
  add("range", focus_windows(*plan.focus, focus.value(), own), plan.focus->heads);
}

AttentionWeights composed_weights(const AttentionContext& in, const Plan& plan) {
  AttentionWeights weights = weights_of_maps(in, plan);
  for (const PairTerm& window : plan.windows) {
    weights.tokens = apply_on_heads(window, weights.tokens, in);
    if (!std::holds_alternative<std::shared_ptr<const CustomTerm>>(window.what)) continue;  // others keep a 0
    if (const Tensor allow = allowed_keys(in, plan); allow.defined())
      weights.tokens = where(allow, weights.tokens, Tensor::zeros({1}, in.query.dtype(), in.query.device()));
  }
  for (const HeadMixing& part : plan.mixings)
    if (part.after.defined())
      for (Variable* part_of_weights : {&weights.tokens, &weights.others})
        if (part_of_weights->defined())
          *part_of_weights = change_heads(*part_of_weights, part.heads,
                                          [&](const Variable& own) { return mix_heads(own, part.after); });
  return weights;
}

void trace_composed_weights(const AttentionContext& in, const Plan& plan, const Variable& focus,
                            AttentionTrace& trace) {
  NoGrad off;
  fill_trace(in, plan, with_dimensions_last(composed_weights(in, plan).tokens), focus, trace);
}

Variable composed_output(const AttentionContext& in, const Plan& plan, const AttentionWeights& weights) {
  Variable out = weighted_sum(weights.tokens, in.value);  // [B, H, I, D]
  std::int64_t first = 0;
  for (const ExtraKeys& part : plan.extra_keys) {
    const Variable own = slice(weights.others, -1, first, first + part.keys.size(1));
    first += part.keys.size(1);
    out = change_heads(out, part.heads, [&](const Variable& heads_out) {
      const Variable of_heads = slice_heads(own, resolved(part.heads, own.size(-3)));
      return heads_out + weighted_sum(of_heads, unsqueeze(part.values, 0));
    });
  }
  for (const RelativeValues& term : plan.values) out = out + relative_values(term, weights.tokens, in);
  return out;
}

AttentionOutput attend_composed(const AttentionContext& in, const Plan& plan, const AttentionDropout& weights_dropout,
                                AttentionTrace* trace) {
  AttentionWeights weights = composed_weights(in, plan);
  if (trace && trace->rows)
    *trace->rows = with_dimensions_last(row_quantities(in, plan, weights));
  else if (trace)
    fill_trace(in, plan, with_dimensions_last(weights.tokens), weights.focus, *trace);
  if (weights_dropout.probability > 0)
    weights.tokens = dropout(weights.tokens, weights_dropout.mask(weights.tokens.size(-1)));
  return {composed_output(in, plan, weights), weights.focus};
}

namespace {

/// The bounds and masks of keys that a call reads.
std::vector<SavedTensor> bounds_and_masks(const AttentionContext& in, const Plan& plan) {
  std::vector<SavedTensor> all;
  auto add = [&](const KeyRange& range) {
    all.emplace_back(range.first, "range of keys"), all.emplace_back(range.end, "range of keys");
  };
  add(in.visible);
  for (const auto* ranges : {&plan.ranges, &plan.always})
    for (const HeadKeys& part : *ranges) add(part.keys);
  for (const HeadMask& part : plan.masks) all.emplace_back(part.mask, "mask");
  return all;
}

/// A call as its node keeps it.
struct RecordedCall {
  AttentionContext in;
  std::shared_ptr<const Plan> plan;
  AttentionDropout dropout;
  AttentionBackward backward;
  std::vector<Saved> inputs;
  std::vector<SavedTensor> watched;  ///< read by the backward pass, but not differentiated

  /// The inputs. Throws Error if an input or watched tensor has changed since the forward pass.
  std::vector<Variable> checked_inputs(const Node& node) const {
    for (const SavedTensor& tensor : watched) tensor.get(node);
    std::vector<Variable> x;
    for (const Saved& input : inputs) x.push_back(input.get(node));
    return x;
  }
};

Gradients gradients_of_engine(const RecordedCall& call, const Gradients& g, const Node& node) {
  call.checked_inputs(node);
  const Tensor of_out =
      g[0].defined() ? g[0].value() : Tensor::zeros(node.output_shapes()[0], node.dtype(), call.in.query.device());
  const Tensor of_focus = g.size() > 1 && g[1].defined() ? g[1].value().contiguous() : Tensor();
  Gradients gradients;
  for (Tensor& gradient : call.backward(of_out, of_focus, node))
    gradients.push_back(gradient.defined() ? Variable(std::move(gradient)) : Variable());
  return gradients;
}

/// The same as differentiable functions.
Gradients composed_gradients(const RecordedCall& call, const Gradients& g, const Node& node) {
  const std::vector<Variable> inputs = call.checked_inputs(node);
  const AttentionOutput made = attend_composed(call.in, *call.plan, call.dropout, nullptr);
  Gradients total(inputs.size());
  auto add = [&](const Variable& output, const Variable& gradient) {
    Gradients own = partial_gradients(output, inputs, gradient);
    for (std::size_t k = 0; k < own.size(); ++k)
      if (own[k].defined()) total[k] = total[k].defined() ? total[k] + own[k] : own[k];
  };
  if (g[0].defined()) add(made.out, g[0]);
  if (call.plan->focus && g[1].defined()) add(made.focus, g[1]);
  return total;
}

}  // namespace

AttentionOutput record_call(const char* name, const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                            const AttentionDropout& dropout, const std::vector<Variable>& inputs, const Tensor& out,
                            const Tensor& focus, AttentionBackward backward) {
  if (!should_record(inputs)) return {out, focus.defined() ? Variable(focus) : Variable()};
  RecordedCall call{in,
                    plan,
                    dropout,
                    std::move(backward),
                    std::vector<Saved>(inputs.begin(), inputs.end()),
                    bounds_and_masks(in, *plan)};
  call.watched.emplace_back(focus, "second result");
  auto node = make_node(name, inputs, fused_rule(std::move(call), gradients_of_engine, composed_gradients));
  Variable made = output_of(node, 0, out);
  return {made, focus.defined() ? output_of(node, 1, focus) : Variable()};
}

}  // namespace fovea
