/// One call of the fused engine: its terms in strips, and its sizes.
#pragma once
#include <memory>
#include <vector>

#include "attention/method.h"
#include "attention/strip_recurrence.h"
#include "attention/strip_score.h"

namespace fovea {

/// Keys first ≤ j < end.
struct Interval {
  std::int64_t first, end;
  bool empty() const { return first >= end; }
  bool contains(std::int64_t j) const { return first <= j && j < end; }
  /// This one cut off by the other: where nothing is left, an empty one at this one's beginning.
  Interval within(Interval other) const {
    Interval both{std::max(first, other.first), std::min(end, other.end)};
    return both.empty() ? Interval{first, first} : both;
  }
  Interval joined(Interval other) const { return {std::min(first, other.first), std::max(end, other.end)}; }
};

/// A KeyRange of rank 3, which broadcasts to [B, H, I], as its numbers lie.
class KeyIntervals {
 public:
  KeyIntervals() = default;
  explicit KeyIntervals(const KeyRange& range) : first_(range.first), end_(range.end) {}
  Interval at(std::int64_t b, std::int64_t h, std::int64_t i) const { return {first_.at(b, h, i), end_.at(b, h, i)}; }
  bool same_for_queries() const { return first_.strides[2] == 0 && end_.strides[2] == 0; }

 private:
  struct Bound {
    Bound() = default;
    explicit Bound(const Tensor& x) : tensor(x), numbers(x.data<std::int64_t>()) {
      for (int d = 0; d < 3; ++d) strides[d] = x.shape()[d] > 1 ? x.strides()[d] : 0;
    }
    std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t i) const {
      return numbers[b * strides[0] + h * strides[1] + i * strides[2]];
    }
    Tensor tensor;
    const std::int64_t* numbers = nullptr;
    std::int64_t strides[3] = {};
  };
  Bound first_, end_;
};

/// All that the two passes of one call share. Biases are what changes the logits, scores' functions first.
struct FusedCall {
  AttentionContext in;
  std::shared_ptr<const Terms> terms;
  AttentionDropout dropout;
  KeyIntervals visible;                             ///< in's
  std::vector<KeyIntervals> ranges, always;         ///< the terms'
  std::vector<Tensor> masks;                        ///< of rank 4, with a row of keys for each query
  std::vector<std::unique_ptr<StripScore>> scores;  ///< every head has one of them
  std::vector<std::unique_ptr<StripTerm>> biases, windows;
  std::unique_ptr<StripRecurrence> recurrence;  ///< or null
  std::vector<std::unique_ptr<StripValueTerm>> values;
  StripShape shape;
  bool by_dimension = false;  ///< each dimension of the values has its own weights
  std::int64_t planes = 1;    ///< of a strip: D by dimension
  std::int64_t rows;          ///< of a strip, at most
  bool same_keys = false;     ///< for all queries of a head
  bool in_pieces = false;     ///< keys between what is always seen and the windows may be left out
  /// As matrix products are computed where each operand is used often, and rounding it pays; otherwise f32.
  Precision products = Precision::f32;

  /// What the call differentiates by, in this order: the values; what scores, biases, windows, the recurrence and value
  /// terms read; the sink.
  std::vector<Variable> inputs() const;

  /// body(part) for all that has inputs(), in that order.
  template <class Body>
  void for_parts(Body&& body) const {
    for (const auto& score : scores) body(*score);
    for (const auto& term : biases) body(*term);
    for (const auto& term : windows) body(*term);
    if (recurrence) body(*recurrence);
    for (const auto& term : values) body(*term);
  }

  bool has_recurrence(std::int64_t head) const {
    return recurrence && recurrence->first_head <= head && head < recurrence->first_head + recurrence->heads;
  }
  bool has_densities(std::int64_t head) const {
    return terms->densities.defined() && terms->densities.data<bool>()[head];
  }
  std::int64_t rows_of_head(std::int64_t head) const {
    return has_recurrence(head) && recurrence->chooses_keys() ? 1 : rows;
  }

  // What query i of a head sees: by lengths and causality; of those, what is in every hard window; and what is always
  // seen around that.
  Interval visible_keys(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return within_keys(visible.at(b, h, i));
  }
  Interval windowed_keys(Interval visible, std::int64_t b, std::int64_t h, std::int64_t i) const;
  Interval keys(Interval visible, std::int64_t b, std::int64_t h, std::int64_t i) const;
  /// Behind all that is always seen and before the windows: what the query does not see there.
  Interval gap(Interval visible, std::int64_t b, std::int64_t h, std::int64_t i) const;
  /// −inf where a key lies between a row's intervals, or a mask has it out.
  template <class T>
  void exclude(const StripRows<T>& rows, T* strip) const;

 private:
  Interval within_keys(Interval interval) const { return Interval{0, shape.keys}.within(interval); }
};

/// Null where something has no form in strips. Throws, before any thread works on it, where parts of the call do not
/// fit each other.
std::shared_ptr<const FusedCall> plan_call(const AttentionContext& in, const std::shared_ptr<const Terms>& terms,
                                           const AttentionDropout& dropout);

}  // namespace fovea
