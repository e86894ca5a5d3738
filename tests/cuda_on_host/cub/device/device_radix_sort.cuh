/// Stands in for CUB's sort of a whole array in builds with -Dcuda=host.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "tests/cuda_on_host/runtime.h"

namespace cub {

struct DeviceRadixSort {
  /// As CUB has it: equal keys keep their order, only the bits begin_bit ≤ b < end_bit of the keys are compared, and a
  /// call without storage returns how many bytes it needs.
  template <class Key, class Value>
  static cudaError_t SortPairs(void* storage, std::size_t& bytes, const Key* keys, Key* sorted_keys,
                               const Value* values, Value* sorted_values, int count, int begin_bit, int end_bit,
                               cudaStream_t stream) {
    if (!storage) {
      bytes = 1;
      return cudaSuccess;
    }
    fovea::cuda_on_host::enqueue(stream, "DeviceRadixSort", [=] {
      auto digits = [=](Key key) { return (static_cast<std::uint64_t>(key) & ((1ull << end_bit) - 1)) >> begin_bit; };
      std::vector<std::pair<Key, Value>> pairs;
      for (int k = 0; k < count; ++k) pairs.emplace_back(keys[k], values[k]);
      std::stable_sort(pairs.begin(), pairs.end(),
                       [&](const auto& a, const auto& b) { return digits(a.first) < digits(b.first); });
      for (int k = 0; k < count; ++k) {
        sorted_keys[k] = pairs[static_cast<std::size_t>(k)].first;
        sorted_values[k] = pairs[static_cast<std::size_t>(k)].second;
      }
    });
    return cudaSuccess;
  }
};

}  // namespace cub
