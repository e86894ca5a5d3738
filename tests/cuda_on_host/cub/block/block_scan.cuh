/// Stands in for CUB's block-wide prefix sums in builds with -Dcuda=host.
#pragma once
#include "cuda/shared_memory.h"

namespace cub {

template <class T, int threads>
class BlockScan {
 public:
  struct TempStorage {
    fovea::cuda::SharedArray<T, threads> values;
  };
  explicit BlockScan(TempStorage& shared) : values_(shared.values) {}

  /// Every thread gets its prefix and the total. The storage can be used again only after a barrier.
  void InclusiveSum(T mine, T& prefix, T& total) {
    T before = sum_before(mine, total);
    prefix = before + mine;
  }
  void ExclusiveSum(T mine, T& prefix, T& total) { prefix = sum_before(mine, total); }

 private:
  T sum_before(T mine, T& total) {
    values_[threadIdx.x] = mine;
    __syncthreads();
    T before{};
    total = T{};
    for (unsigned k = 0; k < blockDim.x; ++k) {
      if (k == threadIdx.x) before = total;
      total += values_[k];
    }
    return before;
  }

  fovea::cuda::SharedArray<T, threads>& values_;
};

}  // namespace cub
