/// Launches kernels: chooses the size of their grid, and passes strided loops to them.
#pragma once
#include <array>
#include <cstdint>

#include "cuda/stream.h"
#include "tensor/element_loop.h"
#include "tensor/tensor.h"
#ifdef FOVEA_CUDA_ON_HOST
#include <tuple>

#include "tests/cuda_on_host/runtime.h"
#endif

namespace fovea::cuda {

inline constexpr int block_threads = 256;

/// Returns the number of blocks for `count` threads, but at most 2^20: kernels take further elements in a loop
/// (for_elements).
inline unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(std::min<std::int64_t>((count + block_threads - 1) / block_threads, 1 << 20));
}

/// How many blocks of how many threads run a kernel, and how much dynamic shared memory each block has.
struct Grid {
  dim3 blocks;
  dim3 threads = block_threads;
  std::size_t shared_bytes = 0;
};

/// Appends a kernel to the stream. Throws Error naming `name` if CUDA refuses the launch; an error while the kernel
/// runs is reported when the program next waits for the stream.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const Grid& grid, const Arguments&... arguments) {
#ifdef FOVEA_CUDA_ON_HOST
  auto body = [kernel, given = std::tuple<Parameters...>(arguments...)] { std::apply(kernel, given); };
  cuda_on_host::enqueue(stream(), {name, grid.blocks, grid.threads, grid.shared_bytes, body});
#else
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, stream()>>>(arguments...);
#endif
  check(cudaGetLastError(), name);
}

/// An ElementLoop, which walks several strided operands of one shape, as plain arrays: kernels take it by value.
template <int operands>
struct DeviceLoop {
  int rank;
  std::int64_t count;
  std::int64_t shape[Shape::max_rank];
  std::int64_t strides[operands][Shape::max_rank];

  explicit DeviceLoop(const ElementLoop<operands>& loop) : rank(loop.rank()), count(loop.shape.elements()) {
    for (int d = 0; d < rank; ++d) {
      shape[d] = loop.shape[d];
      for (int k = 0; k < operands; ++k) strides[k][d] = loop.strides[k][d];
    }
  }

  /// Computes where element number `element`, in row-major order, lies in each operand: offset[k] for operand k.
  __device__ void offsets(std::int64_t element, std::int64_t (&offset)[operands]) const {
    for (int k = 0; k < operands; ++k) offset[k] = 0;
    for (int d = rank - 1; d >= 0; --d) {
      std::int64_t index = d > 0 ? element % shape[d] : element;
      element /= shape[d];
      for (int k = 0; k < operands; ++k) offset[k] += index * strides[k][d];
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
