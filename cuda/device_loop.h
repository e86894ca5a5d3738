/// Strided loops as kernels take them.
///
/// NVRTC reads this file too, before generated kernels (cuda/compiled.h): it may include no other headers than these.
#pragma once
#include <cstdint>

#include <cuda_runtime.h>

namespace fovea::cuda {

/// The largest rank of a loop, that of tensors.
inline constexpr int max_loop_rank = 8;

/// Returns a / b for numbers that are not negative. Divisions of 32 bits take a fraction of the time of those of 64
/// bits.
__device__ inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if ((a | b) >> 32 == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}

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
  /// Computes the offsets of element number `element` of the first `dimensions` dimensions.
  template <int n>
  __device__ void offsets_over(int dimensions, std::int64_t element, std::int64_t (&offset)[n]) const {
    static_assert(n <= operands);
    for (int k = 0; k < n; ++k) offset[k] = 0;
    for (int d = dimensions - 1; d >= 0; --d) {
      const std::int64_t rest = d > 0 ? quotient(element, shape[d]) : 0, index = element - rest * shape[d];
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

/// A GPU ends a kernel that loads or stores at an address that is no multiple of the size. On the host, where such an
/// access works, this reports it.
__device__ inline void require_aligned([[maybe_unused]] const void* address, [[maybe_unused]] unsigned bytes) {
#ifdef FOVEA_CUDA_ON_HOST
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) cuda_on_host::report_misaligned(address, bytes);
#endif
}

/// Loads `count` ≤ width elements that lie `step` apart; the places after them get copies of the first. With
/// `is_packed`, they are a whole Pack.
template <class T, int width>
__device__ void load_elements(const T* from, std::int64_t step, bool is_packed, int count, T (&to)[width]) {
  if (is_packed) {
    require_aligned(from, sizeof(Pack<T, width>));
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
    require_aligned(to, sizeof(Pack<T, width>));
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

/// A DeviceLoop whose threads take runs of `width` neighbouring elements of the last dimension. The last run of a row
/// may be shorter.
template <int operands, int width>
struct RunLoop : DeviceLoop<operands> {
  std::int64_t runs_of_row;
  unsigned packed;  ///< bit k: all whole runs of operand k are Packs

#ifndef __CUDACC_RTC__
  /// `first` has the address of the first element of each operand, `bytes` the size of its elements.
  template <class ElementLoop>
  RunLoop(const ElementLoop& loop, const void* const (&first)[operands], const std::size_t (&bytes)[operands])
      : DeviceLoop<operands>(loop), packed(0) {
    runs_of_row = (this->inner() + width - 1) / width;
    for (int k = 0; k < operands; ++k) {
      const auto address = reinterpret_cast<std::uintptr_t>(first[k]);
      bool is_packed = this->inner_step(k) == 1 && address % (width * bytes[k]) == 0;
      for (int d = 0; d < this->rank - 1; ++d) is_packed = is_packed && this->strides[k][d] % width == 0;
      packed |= static_cast<unsigned>(is_packed) << k;
    }
  }
#endif

  __host__ __device__ std::int64_t runs() const { return this->count / this->inner() * runs_of_row; }
  /// Computes where run number `run` begins in each of the first n operands, and returns its number of elements.
  template <int n>
  __device__ int start_of_run(std::int64_t run, std::int64_t (&offset)[n]) const {
    const std::int64_t row = this->rank == 1 ? 0 : quotient(run, runs_of_row),
                       column = (run - row * runs_of_row) * width;
    this->row_offsets(row, offset);
    for (int k = 0; k < n; ++k) offset[k] += column * this->inner_step(k);
    const std::int64_t left = this->inner() - column;
    return left < width ? static_cast<int>(left) : width;
  }
  /// Whether a run of `count` elements is a Pack in operand k.
  __device__ bool is_pack(int k, int count) const { return count == width && (packed >> k & 1); }
};

}  // namespace fovea::cuda
