#include "attention/engine/cpu/fused_call.h"

#include <algorithm>

#include "attention/engine/cpu/hidden_strips.h"
#include "attention/engine/cpu/term_strips.h"
#include "attention/engine/cpu/value_strips.h"
#include "attention/engine/cpu/window_strips.h"

namespace fovea {

template <class T>
std::vector<Variable> FusedCall<T>::inputs() const {
  std::vector<Variable> all;
  for_kinds([&](const auto& parts) {
    for (const auto& part : parts)
      for (const StripInput& input : part.inputs) all.push_back(input.variable);
  });
  if (plan->sink.defined()) all.push_back(plan->sink);
  return all;
}

template <class T>
void FusedCall<T>::exclude(const StripRows<T>& rows, T* strip, T by) const {
  if (seen.intervals() == 1 && masks.empty()) return;
  for (std::int64_t r = 0; r < rows.count; ++r) {
    T* row = strip + r * rows.stride;
    const std::int64_t first = rows.first[r], end = rows.end[r];
    auto interval = [&, visible = Interval{rows.visible_first[r], rows.visible_end[r]}](std::size_t k) {
      return seen.interval(k, visible, rows.sentence, rows.head, rows.first_query + r);
    };
    const bool has_gaps = seen.intervals() > 1 && !interval(0).contains({first, end});
    for (std::int64_t j = first, next; has_gaps && j < end; j = next) {
      std::int64_t seen_until = j;
      next = end;  // then: the first key behind j where an interval begins
      for (std::size_t k = 0; k < seen.intervals(); ++k) {
        const Interval keys = interval(k);
        if (keys.contains(j)) seen_until = std::max(seen_until, keys.end);
        if (!keys.empty() && keys.first > j) next = std::min(next, keys.first);
      }
      if (seen_until > j)
        next = seen_until;
      else
        std::fill(row + j, row + next, by);
    }
    for (const HeadMask& part : masks) {
      const std::int64_t h = rows.head - part.heads.first;
      if (h < 0 || part.heads.count <= h) continue;
      const auto* allowed = reinterpret_cast<const std::uint8_t*>(part.mask.address()) +
                            broadcast_offset(part.mask, rows.sentence, h, rows.first_query + r);
      for (std::int64_t j = first; j < end; ++j)  // without a branch: the compiler makes vectors of it
        row[j] = allowed[j] ? row[j] : by;
    }
  }
}

// ---- The plan

namespace {

/// The plan with a score for every head. Heads for which no method sets a score get default_score(), which reads slices
/// of queries and keys. The engine and the second derivatives must use the same slices, so they are made once, here.
std::shared_ptr<const Plan> with_all_scores(const std::shared_ptr<const Plan>& plan, const AttentionContext& in) {
  if (plan->scores.empty()) return plan;
  auto complete = std::make_shared<Plan>(*plan);
  complete->scores = scores_of_all_heads(*plan, in);
  return complete;
}

/// Adds a part that acts on these heads.
template <class Kind>
void add_part(std::vector<PartOfCall<Kind>>& parts, HeadRange heads, PartOfCall<Kind> part) {
  part.heads = heads;
  parts.push_back(std::move(part));
}
template <class Kind, class Strips>
void add(std::vector<PartOfCall<Kind>>& parts, HeadRange heads, Strips strips) {
  add_part(parts, heads, PartOfCall<Kind>::of(std::move(strips)));
}

/// Adds the parts of a plan to a call, whose shape is known.
template <class T>
class PartsOfPlan {
 public:
  explicit PartsOfPlan(FusedCall<T>& call) : call_(call) {}

  /// Adds all parts. Returns the kind of a part that has no form on strips, or null.
  const char* add_all() {
    const Plan& plan = *call_.plan;
    for (const Score& score : scores_of_all_heads(plan, call_.in)) add_score(score);
    if (plan.focus && call_.by_dimension) return "a focus with weights for each dimension of the values";
    if (plan.focus) {
      const HeadRange heads = heads_of(*plan.focus);
      add(call_.focus, heads, FocusStrips<T>(*plan.focus, shape_of(heads)));
    }
    for (const auto* terms : {&plan.score_changes, &plan.biases, &plan.windows}) {
      if (terms == &plan.windows) call_.biases = call_.terms.size();
      for (const PairTerm& term : *terms)
        if (const char* missing = add_term(term)) return missing;
    }
    const HeadRange all{0, call_.shape.heads};
    if (call_.planes == 1)
      add(call_.values, all, MatrixValues<T>(call_.in.value, call_.shape));
    else
      add(call_.values, all, PlaneValues<T>(call_.in.value, call_.shape));
    for (const RelativeValues& term : plan.values) {
      const HeadRange heads = heads_of(term);
      add(call_.values, heads, RelativeStrips<T>(term.captures[0].value, term.clip, shape_of(heads)));
    }
    if (call_.by_dimension && !plan.values.empty())
      return "an addition to the output, beside weights for each dimension of the values,";
    return nullptr;
  }

 private:
  HeadRange heads_of(const auto& part) const { return resolved(part.heads, call_.shape.heads); }
  StripShape shape_of(HeadRange heads) const {
    StripShape own = call_.shape;
    own.heads = heads.count;
    return own;
  }

  void add_score(const Score& score) {
    const HeadRange heads = heads_of(score);
    const StripShape shape = shape_of(heads);
    if (score.form == Score::Form::hidden_by_dimension) {
      call_.by_dimension = true;
      call_.planes = score.weight.size(-1);
      return add(call_.scores, heads, FineGrainedScore<T>(score, shape));
    }
    const LoweredScore own = lowered(score);
    if (own.hidden_weight.defined())
      add(call_.scores, heads, AdditiveScore<T>(score, shape));
    else if (own.queries.defined())
      add(call_.scores, heads, DotScore<T>(own.queries, own.keys, own.scale, shape));
    else
      add(call_.scores, heads, ZeroScore<T>());
    if (!own.bias.parts.empty()) add_formula(own.bias.parts[0], own.bias.captures, heads);
  }

  void add_formula(const PointwiseFormula& formula, const std::vector<LoweredCapture>& captures, HeadRange heads) {
    add(call_.terms, heads, PointwiseStrips<T>(formula, captures, shape_of(heads)));
  }

  const char* add_term(const PairTerm& term) {
    const HeadRange heads = heads_of(term);
    if (const auto* formula = std::get_if<PointwiseFormula>(&term.what)) {
      add_formula(*formula, lowered(term.captures), heads);
    } else if (const auto* window = std::get_if<PointerWindow>(&term.what)) {
      if (window->mask == PointerWindow::Mask::discrete) return "a window with mask=discrete";
      add(call_.terms, heads, WindowStrips<T>(*window, term.captures, shape_of(heads)));
    } else if (std::holds_alternative<Renormalization>(term.what)) {
      add(call_.terms, heads, RenormalizeStrips<T>());
    } else {
      const auto* own = dynamic_cast<const WithStrips*>(std::get<std::shared_ptr<const CustomTerm>>(term.what).get());
      if (!own) return "a term of whole rows";
      const std::vector<Variable> captured = values_of(term.captures);
      const StripForm form = own->strips(context_of_heads(call_.in, heads), captured, shape_of(heads));
      if constexpr (std::is_same_v<T, float>)
        add_part(call_.terms, heads, form.f32());
      else
        add_part(call_.terms, heads, form.f64());
      call_.terms.back().may_change_zeros = true;
    }
    return nullptr;
  }

  FusedCall<T>& call_;
};

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

}  // namespace

template <class T>
PlannedCall<T> plan_call(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                         const AttentionDropout& dropout) {
  if (!plan->dilations.empty()) return {nullptr, "a dilated window"};
  if (!plan->extra_keys.empty()) return {nullptr, "a set of keys without tokens"};
  if (const char* missing = part_between_heads(*plan)) return {nullptr, missing};
  auto call = std::make_shared<FusedCall<T>>();
  call->in = in;
  call->plan = with_all_scores(plan, in);
  call->dropout = dropout;
  const std::int64_t B = in.query.size(0), H = in.query.size(1), I = in.query.size(2), J = in.key.size(2);
  call->shape = {B, H, I, J, in.query_offset, plan->focus ? 1 : parts_of(B * H, I), B >= many_sentences};
  if (const char* missing = PartsOfPlan<T>(*call).add_all()) return {nullptr, missing};
  call->rows = strip_rows(*call);
  if (std::min(I, J) >= worth_rounding) call->products = matmul_precision();
  call->seen = SeenKeys(in, *plan);
  call->by_interval = call->seen.intervals() > 1;
  call->for_kinds([&](const auto& parts) {
    for (const auto& part : parts) call->by_interval = call->by_interval && part.model->by_interval;
  });
  call->same_keys = !call->seen.varies(2, {0, H}) && !(plan->focus && call->focus[0].model->chooses_keys());
  for (const HeadMask& part : plan->masks)
    call->masks.push_back({rows_of_keys(with_rank(part.mask, 4), J), resolved(part.heads, H)});
  return {call, nullptr};
}

template struct FusedCall<float>;
template struct FusedCall<double>;
template PlannedCall<float> plan_call(const AttentionContext&, const std::shared_ptr<const Plan>&,
                                      const AttentionDropout&);
template PlannedCall<double> plan_call(const AttentionContext&, const std::shared_ptr<const Plan>&,
                                       const AttentionDropout&);

}  // namespace fovea
