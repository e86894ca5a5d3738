/// The plan of one call of the fused engine: its sizes, its parts' forms on strips, and the keys that queries see.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "attention/engine/composed.h"
#include "attention/engine/cpu/focus_strips.h"
#include "attention/engine/cpu/strips.h"
#include "attention/engine/seen_keys.h"

namespace fovea {

/// The plan of a call on strips, which both passes share. T is the type of its numbers.
template <class T>
struct FusedCall {
  AttentionContext in;
  std::shared_ptr<const Plan> plan;
  AttentionDropout dropout;
  SeenKeys seen;
  std::vector<HeadMask> masks;                    ///< Plan::masks, with rank 4 and contiguous rows of J keys
  std::vector<PartOfCall<StripScore<T>>> scores;  ///< each head has exactly one of them
  std::vector<PartOfCall<StripTerm<T>>> terms;    ///< Plan::score_changes, Plan::biases, Plan::windows
  std::size_t biases = 0;                         ///< number of terms before the softmax
  std::vector<PartOfCall<FocusStrips<T>>> focus;  ///< one or none
  std::vector<PartOfCall<StripValues<T>>> values;
  StripShape shape;
  bool by_dimension = false;  ///< whether each dimension of the values has its own weights
  std::int64_t planes = 1;    ///< number of a strip's planes: D if by_dimension
  std::int64_t rows;          ///< largest number of a strip's rows
  bool same_keys = false;     ///< whether all queries of a head see the same keys
  bool by_interval = false;   ///< whether strips may be processed interval by interval
  /// Precision of matrix products: matmul_precision() if each operand is used often enough for rounding to pay,
  /// otherwise f32.
  Precision products = Precision::f32;

  /// body(parts) for the parts of each kind. Their inputs are in this order.
  template <class Body>
  void for_kinds(Body&& body) const {
    body(scores), body(terms), body(focus), body(values);
  }
  /// The variables that the call has gradients for: the inputs of all parts, then the sink.
  std::vector<Variable> inputs() const;

  bool has_focus(std::int64_t head) const { return !focus.empty() && focus[0].acts_on(head); }
  bool has_densities(std::int64_t head) const {
    return std::any_of(plan->normalizers.begin(), plan->normalizers.end(), [&](const Normalizer& part) {
      return common_heads(resolved(part.heads, shape.heads), {head, 1}).count > 0;
    });
  }
  bool focus_chooses_keys(std::int64_t head) const { return has_focus(head) && focus[0].model->chooses_keys(); }
  /// Largest number of a strip's rows for this head.
  std::int64_t rows_of_head(std::int64_t head) const { return focus_chooses_keys(head) ? 1 : rows; }

  /// Sets to `by`, −inf for logits, the numbers of the keys of each row that the row does not see: keys outside of all
  /// its intervals, and masked ones.
  void exclude(const StripRows<T>& rows, T* strip, T by) const;
};

template <class T>
struct PlannedCall {
  std::shared_ptr<const FusedCall<T>> call;
  const char* missing;  ///< where `call` is null: the part of the plan that has no form on strips
};

/// The plan of a call, which has passed check_plan().
template <class T>
PlannedCall<T> plan_call(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                         const AttentionDropout& dropout);

}  // namespace fovea
