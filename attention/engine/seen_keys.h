/// The keys that each query of a call sees, as intervals in the CPU's memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "attention/plan.h"

namespace fovea {

/// The keys first ≤ j < end.
struct Interval {
  std::int64_t first, end;
  bool empty() const { return first >= end; }
  bool contains(std::int64_t j) const { return first <= j && j < end; }
  bool contains(Interval other) const { return first <= other.first && other.end <= end; }
  /// The intersection. If it is empty, the result is {first, first}.
  Interval within(Interval other) const {
    Interval both{std::max(first, other.first), std::min(end, other.end)};
    return both.empty() ? Interval{first, first} : both;
  }
  /// The smallest interval that contains both.
  Interval joined(Interval other) const { return {std::min(first, other.first), std::max(end, other.end)}; }
};

/// The heads that are in both ranges; count is 0 if there are none.
HeadRange common_heads(HeadRange a, HeadRange b);

/// Reads which keys a query sees from AttentionContext::visible, Plan::ranges and Plan::always, number by number. Masks
/// and dilations are ignored.
class SeenKeys {
 public:
  SeenKeys() = default;
  /// For a plan that has passed check_plan(). Throws Error unless all bounds are in the CPU's memory.
  SeenKeys(const AttentionContext& in, const Plan& plan);

  /// The keys that query i of a head may see by lengths, causality and documents.
  Interval visible(std::int64_t b, std::int64_t h, std::int64_t i) const { return row().within(visible_.at(b, h, i)); }
  /// The number of intervals whose union contains the keys that a query sees: one for all Plan::ranges together, and
  /// one for each part of Plan::always.
  std::size_t intervals() const { return 1 + always_.size(); }
  /// Interval k of the keys that query i sees. `visible` is visible(b, h, i). The result may be empty, and the
  /// intervals may overlap.
  Interval interval(std::size_t k, Interval visible, std::int64_t b, std::int64_t h, std::int64_t i) const;

  /// Whether the keys depend on the sentence (dimension 0), on the head among these heads (1), or on the query (2).
  bool varies(int dimension, HeadRange heads) const;

 private:
  /// A bound that broadcasts to [B, h, I].
  struct Bound {
    Bound() = default;
    Bound(const Tensor& x, std::int64_t otherwise);
    std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t i) const {
      return numbers ? numbers[b * strides[0] + h * strides[1] + i * strides[2]] : otherwise;
    }
    Tensor tensor;
    const std::int32_t* numbers = nullptr;
    std::int64_t otherwise = 0;    ///< the bound's value if the tensor is undefined
    std::int64_t strides[3] = {};  ///< 0 for dimensions of size 1, which are broadcast
  };
  /// A range on some heads.
  struct Range {
    Bound first, end;
    HeadRange heads;
    bool acts_on(std::int64_t h) const { return heads.first <= h && h < heads.first + heads.count; }
    Interval at(std::int64_t b, std::int64_t h, std::int64_t i) const {
      return {first.at(b, h - heads.first, i), end.at(b, h - heads.first, i)};
    }
  };
  static Range range_of(const HeadKeys& part, const AttentionContext& in);
  Interval row() const { return {0, keys_}; }

  std::int64_t keys_ = 0;  ///< J
  Range visible_;
  std::vector<Range> ranges_, always_;
};

}  // namespace fovea
