/// Stands in for CUB's block-wide reduction in builds with -Dcuda=host.
#pragma once
#include "cuda/shared_memory.h"

namespace cub {

template <class T, int threads>
class BlockReduce {
 public:
  struct TempStorage {
    fovea::cuda::SharedArray<T, threads> values;
  };
  explicit BlockReduce(TempStorage& shared) : values_(shared.values) {}

  /// As CUB has it: the result is thread 0's alone, and the storage can be used again only after a barrier.
  template <class Join>
  T Reduce(T mine, Join join) {
    values_[threadIdx.x] = mine;
    __syncthreads();
    T total = values_[0];
    if (threadIdx.x != 0) {
      std::memset(static_cast<void*>(&total), 0xff, sizeof total);
      return total;
    }
    for (unsigned k = 1; k < blockDim.x; ++k) total = join(total, values_[k]);
    return total;
  }

 private:
  fovea::cuda::SharedArray<T, threads>& values_;
};

}  // namespace cub
