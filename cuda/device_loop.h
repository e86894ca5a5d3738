/// Strided loops as kernels take them.
///
/// NVRTC reads this file too, before generated kernels (cuda/compiled.h): it may include no other headers than these.
#pragma once
#include <cstdint>

#include <cuda_runtime.h>

namespace fovea::cuda {

/// The largest rank of a loop, that of tensors.
inline constexpr int max_loop_rank = 8;

/// An ElementLoop (tensor/element_loop.h), which walks several strided operands of one shape, as plain arrays: kernels
/// take it by value.
template <int operands>
struct DeviceLoop {
  int rank;
  std::int64_t count;
  std::int64_t shape[max_loop_rank];
  std::int64_t strides[operands][max_loop_rank];

#ifndef __CUDACC_RTC__
  template <class ElementLoop>
  explicit DeviceLoop(const ElementLoop& loop) : rank(loop.rank()), count(loop.shape.elements()) {
    static_assert(max_loop_rank == decltype(loop.shape)::max_rank);
    for (int d = 0; d < rank; ++d) {
      shape[d] = loop.shape[d];
      for (int k = 0; k < operands; ++k) strides[k][d] = loop.strides[k][d];
    }
  }
#endif

  /// Computes where element number `element`, in row-major order, lies in each of the first n operands: offset[k] for
  /// operand k.
  template <int n>
  __device__ void offsets(std::int64_t element, std::int64_t (&offset)[n]) const {
    static_assert(n <= operands);
    for (int k = 0; k < n; ++k) offset[k] = 0;
    for (int d = rank - 1; d >= 0; --d) {
      std::int64_t index = d > 0 ? element % shape[d] : element;
      element /= shape[d];
      for (int k = 0; k < n; ++k) offset[k] += index * strides[k][d];
    }
  }
};

/// Calls body(e) for this thread's share of the elements 0 ≤ e < count: a grid-stride loop.
template <class Body>
__device__ void for_elements(std::int64_t count, Body body) {
  std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t e = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < count; e += stride)
    body(e);
}

}  // namespace fovea::cuda
