/// Hard windows: intervals of keys around each query.
#pragma once
#include <utility>
#include <vector>

#include "attention/method.h"

namespace fovea {

/// The keys i − left ≤ j ≤ i + right for each query i, where reach(b, h, i) returns the pair {left, right}. The ranges
/// are [B, H, I]; B and H are given.
template <class Reach>
KeyRange keys_around(const AttentionContext& in, std::int64_t B, std::int64_t H, const Reach& reach) {
  std::int64_t I = in.query.size(2);
  std::vector<std::int64_t> first, end;
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t i = 0; i < I; ++i) {
        std::pair<std::int64_t, std::int64_t> distance = reach(b, h, i);
        first.push_back(in.query_offset + i - distance.first);
        end.push_back(in.query_offset + i + distance.second + 1);
      }
  return {Tensor::from(first, {B, H, I}), Tensor::from(end, {B, H, I})};
}

/// Adds a hard window to the terms, and the quantity "range" for traces: its first and last visible key, [B, H or 1, I,
/// 2]; last is less than first if there is none.
void add_range(Terms& terms, const AttentionContext& in, const KeyRange& range);

}  // namespace fovea
