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

  /// The size of the last dimension, and the distance between neighbouring elements in it.
  __host__ __device__ std::int64_t inner() const { return shape[rank - 1]; }
  __host__ __device__ std::int64_t inner_step(int k) const { return strides[k][rank - 1]; }

  /// Computes where element number `element`, in row-major order, lies in each of the first n operands: offset[k] for
  /// operand k.
  template <int n>
  __device__ void offsets(std::int64_t element, std::int64_t (&offset)[n]) const {
    offsets_over(rank, element, offset);
  }
  /// The same for the first element of row number `row`, where a row is the last dimension.
  template <int n>
  __device__ void row_offsets(std::int64_t row, std::int64_t (&offset)[n]) const {
    offsets_over(rank - 1, row, offset);
  }

 private:
  /// The offsets of element number `element` of the first `dimensions` dimensions. Divisions of 32 bits take a fraction
  /// of the time of those of 64 bits.
  template <int n>
  __device__ void offsets_over(int dimensions, std::int64_t element, std::int64_t (&offset)[n]) const {
    static_assert(n <= operands);
    for (int k = 0; k < n; ++k) offset[k] = 0;
    if (element >> 32 == 0)
      walk(dimensions, static_cast<std::uint32_t>(element), offset);
    else
      walk(dimensions, static_cast<std::uint64_t>(element), offset);
  }
  template <class Number, int n>
  __device__ void walk(int dimensions, Number element, std::int64_t (&offset)[n]) const {
    for (int d = dimensions - 1; d >= 0; --d) {
      const Number size = static_cast<Number>(shape[d]), rest = d > 0 ? element / size : 0;
      const std::int64_t index = static_cast<std::int64_t>(element - rest * size);
      element = rest;
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

/// Neighbouring elements that a thread loads or stores with one instruction; their address is a multiple of their size.
template <class T, int n>
struct alignas(sizeof(T) * n) Pack {
  T element[n];
};
/// The number of elements of a 16-byte Pack, the widest that a thread can load.
template <class T>
inline constexpr int widest_pack = 16 / static_cast<int>(sizeof(T));

/// Loads `count` ≤ width elements that lie `step` apart; the places after them get copies of the first. With
/// `is_packed`, they are a whole Pack.
template <class T, int width>
__device__ void load_elements(const T* from, std::int64_t step, bool is_packed, int count, T (&to)[width]) {
  if (is_packed) {
    const Pack<T, width> pack = *reinterpret_cast<const Pack<T, width>*>(from);
#pragma unroll
    for (int i = 0; i < width; ++i) to[i] = pack.element[i];
  } else {
#pragma unroll
    for (int i = 0; i < width; ++i) to[i] = from[i < count ? i * step : 0];
  }
}

/// Stores the first `count` ≤ width elements `step` apart. With `is_packed`, they are a whole Pack.
template <class T, int width>
__device__ void store_elements(const T (&from)[width], T* to, std::int64_t step, bool is_packed, int count) {
  if (is_packed) {
    Pack<T, width> pack;
#pragma unroll
    for (int i = 0; i < width; ++i) pack.element[i] = from[i];
    *reinterpret_cast<Pack<T, width>*>(to) = pack;
  } else {
#pragma unroll
    for (int i = 0; i < width; ++i)
      if (i < count) to[i * step] = from[i];
  }
}

}  // namespace fovea::cuda
