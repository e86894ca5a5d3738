/// The plan of one call of the fused engine: its sizes, its terms' forms on strips, and the keys that queries see.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "attention/engine/composed.h"
#include "attention/engine/cpu/focus_strips.h"
#include "attention/engine/cpu/strip_parts.h"

namespace fovea {

/// Keys first ≤ j < end.
struct Interval {
  std::int64_t first, end;
  bool empty() const { return first >= end; }
  bool contains(std::int64_t j) const { return first <= j && j < end; }
  /// The intersection. If it is empty, the result is {first, first}.
  Interval within(Interval other) const {
    Interval both{std::max(first, other.first), std::min(end, other.end)};
    return both.empty() ? Interval{first, first} : both;
  }
  /// The smallest interval that contains both.
  Interval joined(Interval other) const { return {std::min(first, other.first), std::max(end, other.end)}; }
};

/// Direct access to the numbers of HeadKeys in the CPU's memory.
class KeyIntervals {
 public:
  KeyIntervals() = default;
  /// The bounds have rank 3 and broadcast to [B, h, I]. J is the number of keys.
  KeyIntervals(const HeadKeys& range, std::int64_t H, std::int64_t J)
      : first_(range.keys.first, 0), end_(range.keys.end, J), heads_(resolved(range.heads, H)) {}
  bool acts_on(std::int64_t head) const { return heads_.first <= head && head < heads_.first + heads_.count; }
  /// The interval of query i of a head on which the range acts.
  Interval at(std::int64_t b, std::int64_t head, std::int64_t i) const {
    const std::int64_t h = head - heads_.first;
    return {first_.at(b, h, i), end_.at(b, h, i)};
  }
  bool same_for_queries() const { return first_.strides[2] == 0 && end_.strides[2] == 0; }

 private:
  struct Bound {
    Bound() = default;
    Bound(const Tensor& x, std::int64_t otherwise) : tensor(x), otherwise(otherwise) {
      if (!x.defined()) return;
      numbers = x.data<std::int32_t>();
      for (int d = 0; d < 3; ++d) strides[d] = x.shape()[d] > 1 ? x.strides()[d] : 0;
    }
    std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t i) const {
      return numbers ? numbers[b * strides[0] + h * strides[1] + i * strides[2]] : otherwise;
    }
    Tensor tensor;
    const std::int32_t* numbers = nullptr;
    std::int64_t otherwise = 0;  ///< where there is no bound
    std::int64_t strides[3] = {};
  };
  Bound first_, end_;
  HeadRange heads_;
};

/// The plan of a call on strips, which both passes share. T is the type of its numbers.
template <class T>
struct FusedCall {
  AttentionContext in;
  std::shared_ptr<const Plan> plan;
  AttentionDropout dropout;
  KeyIntervals visible;                                ///< AttentionContext::visible
  std::vector<KeyIntervals> ranges, always;            ///< Plan::ranges and Plan::always
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

  /// The keys that query i of a head may see by lengths, causality and documents.
  Interval visible_keys(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return within_keys(visible.at(b, h, i));
  }
  /// The number of intervals whose union is what a query sees: one by `ranges`, and one for each of `always`.
  std::size_t intervals() const { return 1 + always.size(); }
  /// Interval k of the keys that query i sees, of those that are visible; it may be empty, and intervals may overlap.
  Interval keys(std::size_t k, Interval visible, std::int64_t b, std::int64_t h, std::int64_t i) const;
  /// Sets to −inf the logits of the keys of each row that the row does not see: keys outside of all its intervals, and
  /// masked ones.
  void exclude(const StripRows<T>& rows, T* strip) const;

 private:
  Interval within_keys(Interval interval) const { return Interval{0, shape.keys}.within(interval); }
  void exclude_between_intervals(const StripRows<T>& rows, std::int64_t r, T* row) const;
};

/// The plan of a call. Null if a term has no form on strips. Throws Error if shapes, types or devices do not fit each
/// other.
template <class T>
std::shared_ptr<const FusedCall<T>> plan_call(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                                              const AttentionDropout& dropout);

}  // namespace fovea
