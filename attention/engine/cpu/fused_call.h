/// The plan of one call of the fused engine: its sizes, its terms' forms on strips, and the keys that queries see.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "attention/engine/composed.h"
#include "attention/engine/cpu/focus_strips.h"
#include "attention/engine/cpu/strip_parts.h"
#include "attention/engine/seen_keys.h"

namespace fovea {

/// The plan of a call on strips, which both passes share. T is the type of its numbers.
template <class T>
struct FusedCall {
  AttentionContext in;
  std::shared_ptr<const Plan> plan;
  AttentionDropout dropout;
  SeenKeys seen;
  std::vector<HeadMask> masks;                         ///< Plan::masks, with rank 4 and contiguous rows of J keys
  std::vector<std::unique_ptr<StripScore<T>>> scores;  ///< each head has exactly one of them
  std::vector<std::unique_ptr<StripTerm<T>>> biases;   ///< Plan::score_changes, then Plan::biases
  std::vector<std::unique_ptr<StripTerm<T>>> windows;
  std::unique_ptr<FocusStrips<T>> focus;  ///< or null
  std::vector<std::unique_ptr<StripValueTerm<T>>> values;
  StripShape shape;
  bool by_dimension = false;  ///< whether each dimension of the values has its own weights
  std::int64_t planes = 1;    ///< number of a strip's planes: D if by_dimension
  std::int64_t rows;          ///< largest number of a strip's rows
  bool same_keys = false;     ///< whether all queries of a head see the same keys
  bool in_pieces = false;     ///< whether strips may be processed in pieces
  /// Precision of matrix products: matmul_precision() if each operand is used often enough for rounding to pay,
  /// otherwise f32.
  Precision products = Precision::f32;

  /// The variables that the call has gradients for: the values; the inputs of scores, biases, windows, focus and value
  /// terms; the sink.
  std::vector<Variable> inputs() const;

  /// body(part) for each score, bias, window, focus and value term, in the order of inputs(); `part` is a StripPart.
  template <class Body>
  void for_parts(Body&& body) const {
    for (const auto& score : scores) body(*score);
    for (const auto& term : biases) body(*term);
    for (const auto& term : windows) body(*term);
    if (focus) body(*focus);
    for (const auto& term : values) body(*term);
  }

  bool has_focus(std::int64_t head) const { return focus && focus->acts_on(head); }
  bool has_densities(std::int64_t head) const {
    return std::any_of(plan->normalizers.begin(), plan->normalizers.end(), [&](const Normalizer& part) {
      const HeadRange heads = resolved(part.heads, shape.heads);
      return heads.first <= head && head < heads.first + heads.count;
    });
  }
  /// Largest number of a strip's rows for this head.
  std::int64_t rows_of_head(std::int64_t head) const { return has_focus(head) && focus->chooses_keys() ? 1 : rows; }

  /// Sets to −inf the logits of the keys of each row that the row does not see: keys outside of all its intervals, and
  /// masked ones.
  void exclude(const StripRows<T>& rows, T* strip) const;

 private:
  void exclude_between_intervals(const StripRows<T>& rows, std::int64_t r, T* row) const;
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
