/// How many threads run a kernel.
#pragma once
#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

namespace fovea::cuda {

inline constexpr int block_threads = 256, warp_lanes = 32;

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

}  // namespace fovea::cuda
