#include "attention/engine/cpu/fused_call.h"

#include <algorithm>
#include <limits>

namespace fovea {

template <class T>
std::vector<Variable> FusedCall<T>::inputs() const {
  std::vector<Variable> all{in.value};
  for_parts([&](const StripPart& part) {
    for (Variable& input : part.inputs()) all.push_back(std::move(input));
  });
  if (plan->sink.defined()) all.push_back(plan->sink);
  return all;
}

// ---- Which keys a query sees

template <class T>
void FusedCall<T>::exclude_between_intervals(const StripRows<T>& rows, std::int64_t r, T* row) const {
  const Interval visible{rows.visible_first[r], rows.visible_end[r]},
      windowed = seen.interval(0, visible, rows.sentence, rows.head, rows.first_query + r);
  if (windowed.first <= rows.first[r] && rows.end[r] <= windowed.end) return;
  std::int64_t j = rows.first[r];
  while (j < rows.end[r]) {
    std::int64_t next = rows.end[r];  // the first key from j on that is seen
    for (std::size_t k = 0; k < seen.intervals(); ++k) {
      const Interval keys = seen.interval(k, visible, rows.sentence, rows.head, rows.first_query + r);
      if (!keys.empty() && keys.end > j) next = std::min(next, std::max(j, keys.first));
    }
    std::fill(row + j, row + next, -std::numeric_limits<T>::infinity());
    j = next;
    for (std::size_t k = 0; k < seen.intervals(); ++k) {
      const Interval keys = seen.interval(k, visible, rows.sentence, rows.head, rows.first_query + r);
      if (keys.contains(j)) j = keys.end;
    }
  }
}

template <class T>
void FusedCall<T>::exclude(const StripRows<T>& rows, T* strip) const {
  if (seen.intervals() == 1 && masks.empty()) return;
  for (std::int64_t r = 0; r < rows.count; ++r) {
    T* row = strip + r * rows.stride;
    if (seen.intervals() > 1) exclude_between_intervals(rows, r, row);
    for (const HeadMask& part : masks) {
      const std::int64_t h = rows.head - part.heads.first;
      if (h < 0 || part.heads.count <= h) continue;
      const auto* allowed = reinterpret_cast<const std::uint8_t*>(part.mask.address()) +
                            broadcast_offset(part.mask, rows.sentence, h, rows.first_query + r);
      const std::int64_t end = rows.end[r];
      for (std::int64_t j = rows.first[r]; j < end; ++j)  // without a branch: the compiler makes vectors of it
        row[j] = allowed[j] ? row[j] : -std::numeric_limits<T>::infinity();
    }
  }
}

// ---- The plan

namespace {

/// Lets the form on strips act on the heads of its part of the plan.
template <class Strips>
void set_heads(Strips& strips, HeadRange part, const AttentionContext& in) {
  const HeadRange heads = resolved(part, in.query.size(1));
  strips.first_head = heads.first;
  strips.heads = heads.count;
}

/// The plan with the scores of all heads. The default_score() of some heads reads slices of queries and keys, and
/// second derivatives are those of the very slices that the engine has read.
std::shared_ptr<const Plan> with_all_scores(const std::shared_ptr<const Plan>& plan, const AttentionContext& in) {
  if (plan->scores.empty()) return plan;
  auto complete = std::make_shared<Plan>(*plan);
  complete->scores = scores_of_all_heads(*plan, in);
  return complete;
}

/// Adds the scores' forms on strips.
template <class T>
void add_scores(FusedCall<T>& call) {
  for (const Score& score : scores_of_all_heads(*call.plan, call.in)) {
    call.scores.push_back(strips_of<T>(score));
    set_heads(*call.scores.back(), score.heads, call.in);
    if (call.scores.back()->dimensions() == 0) continue;
    call.by_dimension = true;
    call.planes = call.scores.back()->dimensions();
  }
}

/// Adds the focus, if there is one. Returns false if strips cannot have it.
template <class T>
bool add_focus(FusedCall<T>& call) {
  const Plan& plan = *call.plan;
  if (!plan.focus) return true;
  if (call.by_dimension) return false;
  call.focus = std::make_unique<FocusStrips<T>>(*plan.focus);
  set_heads(*call.focus, plan.focus->heads, call.in);
  return true;
}

/// The part around the normaliser that strips cannot compute; null if there is none. (A term's form says whether it
/// can.)
const char* part_without_strips(const Plan& plan) {
  if (!plan.dilations.empty()) return "a dilated window";
  if (!plan.mixings.empty()) return "mixing of heads";
  if (!plan.second_maps.empty()) return "a second map of weights";
  if (!plan.extra_keys.empty()) return "a set of keys without tokens";
  for (const Normalizer& part : plan.normalizers)
    if (part.form == Normalizer::Form::custom) return "a normaliser other than the softmax";
  return nullptr;
}

/// Adds the forms on strips of all terms. Returns the kind of a term that has none, or null.
template <class T>
const char* add_strips(const std::vector<PairTerm>& terms, const AttentionContext& in,
                       std::vector<std::unique_ptr<StripTerm<T>>>& strips) {
  for (const PairTerm& term : terms) {
    strips.push_back(strips_of<T>(term, context_of_heads(in, term.heads)));
    if (!strips.back())
      return std::holds_alternative<PointerWindow>(term.what) ? "a window with mask=discrete" : "a term of whole rows";
    set_heads(*strips.back(), term.heads, in);
  }
  return nullptr;
}

/// Adds the forms on strips of all parts. Returns a part that has none, or null.
template <class T>
const char* add_parts(FusedCall<T>& call) {
  const Plan& plan = *call.plan;
  add_scores(call);
  if (!add_focus(call)) return "a focus with weights for each dimension of the values";
  for (auto [terms, strips] : {std::pair(&plan.score_changes, &call.biases), std::pair(&plan.biases, &call.biases),
                               std::pair(&plan.windows, &call.windows)})
    if (const char* missing = add_strips(*terms, call.in, *strips)) return missing;
  for (const RelativeValues& term : plan.values) {
    call.values.push_back(relative_strips<T>(term.captures[0].value, term.clip));
    set_heads(*call.values.back(), term.heads, call.in);
  }
  if (call.by_dimension && !call.values.empty())
    return "an addition to the output, beside weights for each dimension of the values,";
  return nullptr;
}

/// The largest number of a strip's rows: a strip takes about 128 KiB, and the number is a multiple of 16 from 16 to 64,
/// or less if a part has fewer queries.
template <class T>
std::int64_t strip_rows(const FusedCall<T>& call) {
  const StripShape& shape = call.shape;
  std::int64_t row = std::max<std::int64_t>(shape.keys, 1) * static_cast<std::int64_t>(sizeof(T));
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

/// Whether strips may be processed in pieces: all parts can, and there are keys that are always seen.
template <class T>
bool takes_pieces(const FusedCall<T>& call) {
  auto all = [](const auto& parts) {
    return std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part->takes_pieces(); });
  };
  return call.seen.intervals() > 1 && !call.focus && all(call.scores) && all(call.biases) && all(call.windows) &&
         all(call.values);
}

/// A mask with rank 4 and contiguous rows.
HeadMask mask_with_rows(const HeadMask& part, const StripShape& s) {
  return {rows_of_keys(as_rank(part.mask, 4), s.keys), resolved(part.heads, s.heads)};
}

}  // namespace

template <class T>
PlannedCall<T> plan_call(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                         const AttentionDropout& dropout) {
  if (const char* missing = part_without_strips(*plan)) return {nullptr, missing};
  auto call = std::make_shared<FusedCall<T>>();
  call->in = in;
  call->plan = with_all_scores(plan, in);
  call->dropout = dropout;
  const std::int64_t B = in.query.size(0), H = in.query.size(1), I = in.query.size(2);
  if (const char* missing = add_parts(*call)) return {nullptr, missing};
  call->shape = {B, H, I, in.key.size(2), in.query_offset, call->focus ? 1 : parts_of(B * H, I), B >= many_sentences};
  call->rows = strip_rows(*call);
  if (std::min(I, call->shape.keys) >= worth_rounding) call->products = matmul_precision();
  call->seen = SeenKeys(in, *plan);
  call->in_pieces = takes_pieces(*call);
  call->same_keys = !call->seen.varies(2, {0, H}) && !(call->focus && call->focus->chooses_keys());
  for (const HeadMask& mask : plan->masks) call->masks.push_back(mask_with_rows(mask, call->shape));
  return {call, nullptr};
}

template struct FusedCall<float>;
template struct FusedCall<double>;
template PlannedCall<float> plan_call(const AttentionContext&, const std::shared_ptr<const Plan>&,
                                      const AttentionDropout&);
template PlannedCall<double> plan_call(const AttentionContext&, const std::shared_ptr<const Plan>&,
                                       const AttentionDropout&);

}  // namespace fovea
