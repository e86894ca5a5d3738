#include "attention/engine/cpu/fused_call.h"

#include <algorithm>
#include <limits>

namespace fovea {

std::vector<Variable> FusedCall::inputs() const {
  std::vector<Variable> all{in.value};
  for_parts([&](const auto& part) {
    for (Variable& input : part.inputs()) all.push_back(std::move(input));
  });
  if (plan->sink.defined()) all.push_back(plan->sink);
  return all;
}

// ---- Which keys a query sees

Interval FusedCall::windowed_keys(Interval keys, std::int64_t b, std::int64_t h, std::int64_t i) const {
  for (const KeyIntervals& range : ranges)
    if (range.acts_on(h)) keys = keys.within(within_keys(range.at(b, h, i)));
  return keys;
}

Interval FusedCall::keys(Interval visible, std::int64_t b, std::int64_t h, std::int64_t i) const {
  Interval keys = windowed_keys(visible, b, h, i);
  for (const KeyIntervals& range : always) {
    if (!range.acts_on(h)) continue;
    Interval more = within_keys(range.at(b, h, i)).within(visible);
    if (!more.empty()) keys = keys.empty() ? more : keys.joined(more);
  }
  return keys;
}

Interval FusedCall::gap(Interval visible, std::int64_t b, std::int64_t h, std::int64_t i) const {
  Interval gap{0, shape.keys};
  for (const KeyIntervals& range : always) {
    if (!range.acts_on(h)) continue;
    const Interval seen = within_keys(range.at(b, h, i)).within(visible);
    if (!seen.empty()) gap.first = std::max(gap.first, seen.end);
  }
  if (const Interval windowed = windowed_keys(visible, b, h, i); !windowed.empty()) gap.end = windowed.first;
  return gap;
}

template <class T>
void FusedCall::exclude(const StripRows<T>& rows, T* strip) const {
  if (always.empty() && masks.empty()) return;
  constexpr T out = -std::numeric_limits<T>::infinity();
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const std::int64_t b = rows.sentence, h = rows.head, i = rows.first_query + r;
    T* row = strip + r * rows.stride;
    if (!always.empty()) {
      auto exclude_from = [&](std::int64_t first, std::int64_t end) {
        for (std::int64_t j = first; j < end; ++j)
          if (std::none_of(always.begin(), always.end(), [&](const KeyIntervals& range) {
                return range.acts_on(h) && within_keys(range.at(b, h, i)).contains(j);
              }))
            row[j] = out;
      };
      const Interval all{rows.first[r], rows.end[r]},
          windowed = all.within(windowed_keys({rows.visible_first[r], rows.visible_end[r]}, b, h, i));
      exclude_from(all.first, windowed.first);
      exclude_from(windowed.end, all.end);
    }
    for (const HeadMask& part : masks) {
      if (h < part.heads.first || part.heads.first + part.heads.count <= h) continue;
      const auto* allowed = reinterpret_cast<const std::uint8_t*>(part.mask.address()) +
                            broadcast_offset(part.mask, b, h - part.heads.first, i);
      for (std::int64_t j = rows.first[r]; j < rows.end[r]; ++j)
        if (!allowed[j]) row[j] = out;
    }
  }
}
template void FusedCall::exclude(const StripRows<float>&, float*) const;
template void FusedCall::exclude(const StripRows<double>&, double*) const;

// ---- The plan

namespace {

/// Lets the form on strips act on the heads of its part of the plan.
template <class Strips>
void set_heads(Strips& strips, HeadRange part, const AttentionContext& in) {
  const HeadRange heads = resolved(part, in.query.size(1));
  strips.first_head = heads.first;
  strips.heads = heads.count;
}

/// Adds the forms on strips of all terms. Returns false if a term has none.
template <class Term, class Strips>
bool add_strips(const std::vector<Term>& terms, const AttentionContext& in,
                std::vector<std::unique_ptr<Strips>>& strips) {
  for (const Term& term : terms) {
    strips.push_back(strips_of(term, context_of_heads(in, term.heads)));
    if (!strips.back()) return false;
    set_heads(*strips.back(), term.heads, in);
  }
  return true;
}

/// Adds the scores' forms on strips. Returns false if one has none.
bool add_scores(FusedCall& call) {
  for (const Score& score : scores_of_all_heads(*call.plan, call.in)) {
    call.scores.push_back(strips_of(score));
    if (!call.scores.back()) return false;
    set_heads(*call.scores.back(), score.heads, call.in);
    if (call.scores.back()->dimensions() == 0) continue;
    call.by_dimension = true;
    call.planes = call.scores.back()->dimensions();
  }
  return true;
}

/// Adds the recurrence's form on strips, if there is a recurrence. Returns false if it has none.
bool add_recurrence(FusedCall& call) {
  const Plan& plan = *call.plan;
  if (!plan.recurrence) return true;
  if (call.by_dimension) return false;
  check_recurrence(plan);
  const HeadRange heads = resolved(plan.recurrent_heads, call.in.query.size(1));
  call.recurrence = plan.recurrence->strips(context_of_heads(call.in, heads));
  if (!call.recurrence) return false;
  set_heads(*call.recurrence, heads, call.in);
  return true;
}

/// The largest number of a strip's rows: a strip takes about 128 KiB, and the number is a multiple of 16 from 16 to 64,
/// or less if a part has fewer queries.
std::int64_t strip_rows(const FusedCall& call) {
  const StripShape& shape = call.shape;
  std::int64_t row = std::max<std::int64_t>(shape.keys, 1) * static_cast<std::int64_t>(size_of(call.in.query.dtype()));
  std::int64_t rows = std::clamp<std::int64_t>((128 << 10) / row / 16 * 16, 16, 64);
  if (call.planes > 1) rows = std::clamp<std::int64_t>((128 << 10) / row / call.planes, 1, 64);
  return std::clamp<std::int64_t>(shape.queries / shape.parts + 1, 1, rows);
}

/// The number of parts of a head's queries: more than one if there are few heads with many queries. Depends on the
/// sizes only, not on the number of threads, so that results do not either. `heads` counts those of all sentences.
std::int64_t parts_of(std::int64_t heads, std::int64_t queries) {
  return std::clamp<std::int64_t>(std::min(16 / std::max<std::int64_t>(heads, 1), queries / 64), 1, 16);
}

/// With fewer queries or keys, rounding to bf16 takes as long as it saves (`benchmark attention --precision bf16`).
constexpr std::int64_t worth_rounding = 65;

/// With this many sentences each thread can process whole sentences. parts_of() is 1 then.
constexpr std::int64_t many_sentences = 32;

/// Whether strips may have gaps: all terms take pieces, and there are keys that are always seen.
bool takes_pieces(const FusedCall& call) {
  auto all = [](const auto& parts) {
    return std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part->takes_pieces(); });
  };
  return !call.always.empty() && !call.recurrence && all(call.scores) && all(call.biases) && all(call.windows) &&
         all(call.values);
}

/// A range with rank 3. Throws Error unless it is i32 and broadcasts to [B, h, I].
KeyIntervals fitting_range(const HeadKeys& range, const StripShape& s) {
  const std::int64_t heads = resolved(range.heads, s.heads).count;
  auto bound = [&](const Tensor& x) {
    if (!x.defined()) return x;
    const Shape pairs{s.sentences, heads, s.queries};
    require(x.dtype() == DType::i32 && x.rank() <= 3 && broadcast("attention", x.shape(), pairs) == pairs,
            "attention: a range of keys has the bound {}; it must be i32 and broadcast to {}", x, pairs);
    return as_rank(x, 3);
  };
  return {{{bound(range.keys.first), bound(range.keys.end)}, range.heads}, s.heads, s.keys};
}

/// A mask with rank 4 and contiguous rows. Throws Error unless it is bool or u8 and broadcasts to [B, h, I, J].
HeadMask fitting_mask(const HeadMask& part, const StripShape& s) {
  const HeadRange heads = resolved(part.heads, s.heads);
  const Shape pairs{s.sentences, heads.count, s.queries, s.keys};
  const Tensor& mask = part.mask;
  require((mask.dtype() == DType::boolean || mask.dtype() == DType::u8) && mask.rank() <= 4 &&
              broadcast("attention", mask.shape(), pairs) == pairs,
          "attention: a mask is {}; it must be bool or u8 and broadcast to {}", mask, pairs);
  return {rows_of_keys(as_rank(mask, 4), s.keys), heads};
}

/// Throws Error unless queries, keys and values fit each other. `products`: queries and keys must have one width.
void check_sizes(const AttentionContext& in, bool products) {
  const Shape &q = in.query.shape(), &k = in.key.shape(), &v = in.value.shape();
  require(q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q[0] == k[0] && q[1] == k[1] &&
              (q[3] == k[3] || !products) && v[0] == k[0] && v[1] == k[1] && v[2] == k[2],
          "attention: queries {}, keys {}, values {}; expected [B, H, I, D], [B, H, J, D] and [B, H, J, Dv]", q, k, v);
}

/// Throws Error unless all inputs have the queries' type and device, and the sink has its shape.
void check_inputs(const FusedCall& call) {
  for (const Variable& input : call.inputs())
    require(input.dtype() == call.in.query.dtype() && input.device() == call.in.query.device(),
            "attention: a term reads {} on {}, the queries are {} on {}; they must be of one type and device", input,
            name(input.device()), call.in.query, name(call.in.query.device()));
  const StripShape& s = call.shape;
  if (const Variable& sink = call.plan->sink; sink.defined())
    require(sink.shape() == Shape{s.heads}, "attention: the sink is {}; it must be [{}]", sink, s.heads);
}

}  // namespace

std::shared_ptr<const FusedCall> plan_call(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                                           const AttentionDropout& dropout) {
  const std::vector<Score>& scores = plan->scores;
  check_sizes(in, std::all_of(scores.begin(), scores.end(), [](const Score& score) { return score.is_default; }));
  auto call = std::make_shared<FusedCall>();
  call->in = in;
  call->plan = plan;
  call->dropout = dropout;
  const std::int64_t B = in.query.size(0), H = in.query.size(1), I = in.query.size(2);
  if (!add_scores(*call) || !add_recurrence(*call) || !add_strips(plan->score_changes, in, call->biases) ||
      !add_strips(plan->biases, in, call->biases) || !add_strips(plan->windows, in, call->windows) ||
      !add_strips(plan->values, in, call->values) || (call->by_dimension && !call->values.empty()))
    return nullptr;
  call->shape = {
      B, H, I, in.key.size(2), in.query_offset, call->recurrence ? 1 : parts_of(B * H, I), B >= many_sentences};
  call->rows = strip_rows(*call);
  if (std::min(I, call->shape.keys) >= worth_rounding) call->products = matmul_precision();
  check_inputs(*call);
  call->visible = fitting_range({in.visible}, call->shape);
  for (const HeadKeys& range : plan->ranges) call->ranges.push_back(fitting_range(range, call->shape));
  for (const HeadKeys& range : plan->always) call->always.push_back(fitting_range(range, call->shape));
  call->in_pieces = takes_pieces(*call);
  auto same = [](const KeyIntervals& range) { return range.same_for_queries(); };
  call->same_keys = same(call->visible) && std::all_of(call->ranges.begin(), call->ranges.end(), same) &&
                    std::all_of(call->always.begin(), call->always.end(), same) &&
                    !(call->recurrence && call->recurrence->chooses_keys());
  for (const HeadMask& mask : plan->masks) call->masks.push_back(fitting_mask(mask, call->shape));
  return call;
}

}  // namespace fovea
