#include "attention/engine/cpu/fused_call.h"

#include <algorithm>
#include <limits>

namespace fovea {

std::vector<Variable> FusedCall::inputs() const {
  std::vector<Variable> all{in.value};
  for_parts([&](const auto& part) {
    for (Variable& input : part.inputs()) all.push_back(std::move(input));
  });
  if (terms->sink.defined()) all.push_back(terms->sink);
  return all;
}

// ---- Which keys a query sees

Interval FusedCall::windowed_keys(Interval keys, std::int64_t b, std::int64_t h, std::int64_t i) const {
  for (const KeyIntervals& range : ranges) keys = keys.within(within_keys(range.at(b, h, i)));
  return keys;
}

Interval FusedCall::keys(Interval visible, std::int64_t b, std::int64_t h, std::int64_t i) const {
  Interval keys = windowed_keys(visible, b, h, i);
  for (const KeyIntervals& range : always) {
    Interval more = within_keys(range.at(b, h, i)).within(visible);
    if (!more.empty()) keys = keys.empty() ? more : keys.joined(more);
  }
  return keys;
}

Interval FusedCall::gap(Interval visible, std::int64_t b, std::int64_t h, std::int64_t i) const {
  Interval gap{0, shape.keys};
  for (const KeyIntervals& range : always) {
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
          if (std::none_of(always.begin(), always.end(),
                           [&](const KeyIntervals& range) { return within_keys(range.at(b, h, i)).contains(j); }))
            row[j] = out;
      };
      const Interval all{rows.first[r], rows.end[r]},
          windowed = all.within(windowed_keys({rows.visible_first[r], rows.visible_end[r]}, b, h, i));
      exclude_from(all.first, windowed.first);
      exclude_from(windowed.end, all.end);
    }
    for (const Tensor& mask : masks) {
      const auto* allowed = reinterpret_cast<const std::uint8_t*>(mask.address()) + broadcast_offset(mask, b, h, i);
      for (std::int64_t j = rows.first[r]; j < rows.end[r]; ++j)
        if (!allowed[j]) row[j] = out;
    }
  }
}
template void FusedCall::exclude(const StripRows<float>&, float*) const;
template void FusedCall::exclude(const StripRows<double>&, double*) const;

// ---- The plan

namespace {

/// Lets a term act on all heads, unless it has heads already.
template <class Strip>
void set_heads(Strip& strip, const AttentionContext& in) {
  if (strip.heads == 0) strip.heads = in.query.size(1);
}

/// Adds the forms on strips of all terms. Returns false if a term has none.
template <class Term, class Strip>
bool add_strips(const std::vector<std::unique_ptr<Term>>& terms, const AttentionContext& in,
                std::vector<std::unique_ptr<Strip>>& strips) {
  for (const auto& term : terms) {
    strips.push_back(term->strips(in));
    if (!strips.back()) return false;
    set_heads(*strips.back(), in);
  }
  return true;
}

/// Adds the scores' forms on strips. Returns false if there are none.
bool add_scores(FusedCall& call) {
  if (call.terms->score)
    call.scores = call.terms->score->strips(call.in);
  else
    call.scores.push_back(dot_strips(call.in.query, call.in.key, call.in.scale()));
  for (const auto& score : call.scores) {
    set_heads(*score, call.in);
    if (score->dimensions() == 0) continue;
    call.by_dimension = true;
    call.planes = score->dimensions();
  }
  return !call.scores.empty();
}

/// Adds the recurrence's form on strips, if there is a recurrence. Returns false if it has none.
bool add_recurrence(FusedCall& call) {
  if (!call.terms->recurrence) return true;
  if (call.by_dimension) return false;
  check_recurrence(*call.terms);
  call.recurrence = call.terms->recurrence->strips(call.in);
  if (!call.recurrence) return false;
  set_heads(*call.recurrence, call.in);
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

/// A range with rank 3. Throws Error unless it is i64 and broadcasts to [B, H, I].
KeyIntervals fitting_range(const KeyRange& range, const StripShape& s) {
  auto bound = [&](const Tensor& x) {
    const Shape pairs{s.sentences, s.heads, s.queries};
    require(x.dtype() == DType::i64 && x.rank() <= 3 && broadcast("attention", x.shape(), pairs) == pairs,
            "attention: a range of keys has the bound {}; it must be i64 and broadcast to {}", x, pairs);
    return as_rank(x, 3);
  };
  return KeyIntervals({bound(range.first), bound(range.end)});
}

/// Throws Error unless queries, keys and values fit each other. `products`: queries and keys must have one width.
void check_sizes(const AttentionContext& in, bool products) {
  const Shape &q = in.query.shape(), &k = in.key.shape(), &v = in.value.shape();
  require(q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q[0] == k[0] && q[1] == k[1] &&
              (q[3] == k[3] || !products) && v[0] == k[0] && v[1] == k[1] && v[2] == k[2],
          "attention: queries {}, keys {}, values {}; expected [B, H, I, D], [B, H, J, D] and [B, H, J, Dv]", q, k, v);
}

/// Throws Error unless all inputs have the queries' type and device, and masks and sinks have their shapes.
void check_inputs(const FusedCall& call) {
  for (const Variable& input : call.inputs())
    require(input.dtype() == call.in.query.dtype() && input.device() == call.in.query.device(),
            "attention: a term reads {} on {}, the queries are {} on {}; they must be of one type and device", input,
            name(input.device()), call.in.query, name(call.in.query.device()));
  const StripShape& s = call.shape;
  const Shape pairs{s.sentences, s.heads, s.queries, s.keys};
  for (const Tensor& mask : call.terms->masks)
    require((mask.dtype() == DType::boolean || mask.dtype() == DType::u8) && mask.rank() <= 4 &&
                broadcast("attention", mask.shape(), pairs) == pairs,
            "attention: a mask is {}; it must be bool or u8 and broadcast to {}", mask, pairs);
  if (const Variable& sink = call.terms->sink; sink.defined())
    require(sink.shape() == Shape{s.heads}, "attention: the sink is {}; it must be [{}]", sink, s.heads);
}

}  // namespace

std::shared_ptr<const FusedCall> plan_call(const AttentionContext& in, const std::shared_ptr<const Terms>& terms,
                                           const AttentionDropout& dropout) {
  check_sizes(in, !terms->score || terms->score->is_scaled_dot());
  auto call = std::make_shared<FusedCall>();
  call->in = in;
  call->terms = terms;
  call->dropout = dropout;
  const std::int64_t B = in.query.size(0), H = in.query.size(1), I = in.query.size(2);
  if (!add_scores(*call) || !add_recurrence(*call) || !add_strips(terms->scores, in, call->biases) ||
      !add_strips(terms->biases, in, call->biases) || !add_strips(terms->windows, in, call->windows) ||
      !add_strips(terms->values, in, call->values) || (call->by_dimension && !call->values.empty()))
    return nullptr;
  call->shape = {
      B, H, I, in.key.size(2), in.query_offset, call->recurrence ? 1 : parts_of(B * H, I), B >= many_sentences};
  call->rows = strip_rows(*call);
  if (std::min(I, call->shape.keys) >= worth_rounding) call->products = matmul_precision();
  check_inputs(*call);
  call->visible = fitting_range(in.visible, call->shape);
  for (const KeyRange& range : terms->ranges) call->ranges.push_back(fitting_range(range, call->shape));
  for (const KeyRange& range : terms->always) call->always.push_back(fitting_range(range, call->shape));
  call->in_pieces = takes_pieces(*call);
  auto same = [](const KeyIntervals& range) { return range.same_for_queries(); };
  call->same_keys = same(call->visible) && std::all_of(call->ranges.begin(), call->ranges.end(), same) &&
                    std::all_of(call->always.begin(), call->always.end(), same) &&
                    !(call->recurrence && call->recurrence->chooses_keys());
  for (const Tensor& mask : terms->masks) call->masks.push_back(rows_of_keys(as_rank(mask, 4), call->shape.keys));
  return call;
}

}  // namespace fovea
