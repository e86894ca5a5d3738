/// The shared memory of a block: arrays whose size is known at compile time, and the dynamic part, whose size is set at
/// the launch.
///
/// Where kernels run on the host (tests/cuda_on_host), every access is checked against the array's bounds, and memory
/// that the block has not written is filled with 1 bits (NaN).
#pragma once
#include <cstdint>

#include <cuda_runtime.h>

#ifdef FOVEA_CUDA_ON_HOST
#include "tensor/error.h"
#endif

namespace fovea::cuda {

#ifndef FOVEA_CUDA_ON_HOST

/// An array of n elements that the threads of a block share: `__shared__ SharedArray<float, 256> tile;` in a kernel.
template <class T, int n>
class SharedArray {
 public:
  __device__ T& operator[](std::int64_t i) { return elements_[i]; }
  __device__ const T& operator[](std::int64_t i) const { return elements_[i]; }

 private:
  alignas(16) T elements_[n];  // for asynchronous copies of 16 bytes
};

/// An array of elements of type T in the dynamic shared memory, beginning at byte `first_byte`; the second parameter is
/// its number of elements.
template <class T>
class SharedSpan {
 public:
  __device__ SharedSpan(std::int64_t first_byte, std::int64_t) {
    extern __shared__ __align__(16) unsigned char fovea_dynamic_shared[];
    elements_ = reinterpret_cast<T*>(fovea_dynamic_shared + first_byte);
  }
  __device__ T& operator[](std::int64_t i) const { return elements_[i]; }

 private:
  T* elements_;
};

#else

inline void require_shared_index(std::int64_t i, std::int64_t n) {
  if (i < 0 || i >= n)
    cuda_on_host::report_fault(fmt::format("shared memory: index {} of an array of {} elements", i, n));
}

template <class T, int n>
class SharedArray {
 public:
  T& operator[](std::int64_t i) {
    require_shared_index(i, n);
    if (block_ != cuda_on_host::block_number()) {  // the first access of this block
      block_ = cuda_on_host::block_number();
      std::memset(static_cast<void*>(elements_), 0xff, sizeof elements_);
    }
    return elements_[i];
  }

 private:
  alignas(16) T elements_[n];
  std::uint64_t block_ = 0;
};

template <class T>
class SharedSpan {
 public:
  SharedSpan(std::int64_t first_byte, std::int64_t n) : n_(n) {
    const auto bytes = static_cast<std::int64_t>(cuda_on_host::dynamic_shared_bytes());
    if (first_byte % static_cast<std::int64_t>(alignof(T)) != 0 ||
        first_byte + n * static_cast<std::int64_t>(sizeof(T)) > bytes)
      cuda_on_host::report_fault(
          fmt::format("dynamic shared memory: {} elements of {} bytes from byte {} on, of {} bytes", n, sizeof(T),
                      first_byte, bytes));
    elements_ = reinterpret_cast<T*>(cuda_on_host::dynamic_shared() + first_byte);
  }
  T& operator[](std::int64_t i) const {
    require_shared_index(i, n_);
    return elements_[i];
  }

 private:
  T* elements_;
  std::int64_t n_;
};

#endif

}  // namespace fovea::cuda
