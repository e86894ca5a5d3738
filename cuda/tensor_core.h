/// Matrix products on the GPU's tensor cores, one warp at a time. Only this file knows the instruction, and how it
/// distributes the elements of a matrix over the lanes of the warp.
///
///   D [16, 8] = A [16, 16] B [16, 8] + C [16, 8]        A and B in bf16, sums in f32
///
/// With g = lane / 4 and t = lane % 4, each lane holds the elements (row, column) listed here. An element of A stands
/// for itself and its right neighbour, an element of B for itself and the element below it: the pair shares a register.
///
///   A: (g, 2t) (g + 8, 2t) (g, 2t + 8) (g + 8, 2t + 8)     B: (2t, g) (2t + 8, g)
///   C and D: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
///
/// NVIDIA, "Parallel Thread Execution ISA", mma.m16n8k16; from compute capability 8.0.
#pragma once
#include <cstdint>

#include <cuda_runtime.h>

#include "tensor/dtype.h"

namespace fovea::cuda {

/// Packs two bf16 numbers into one register, the first into the lower half.
__device__ inline std::uint32_t pack(bf16 first, bf16 second) {
  return first.bits | static_cast<std::uint32_t>(second.bits) << 16;
}

/// One lane's elements of A, of B, and of C or D, in the order of the list at the beginning of this file.
struct LeftTile {
  std::uint32_t pairs[4];
};
struct RightTile {
  std::uint32_t pairs[2];
};
struct SumTile {
  float sums[4];
};

/// Computes sum += left · right. All 32 lanes of the warp must call it together.
__device__ inline void multiply_add(SumTile& sum, const LeftTile& left, const RightTile& right);

#ifndef FOVEA_CUDA_ON_HOST

__device__ inline void multiply_add(SumTile& sum, const LeftTile& left, const RightTile& right) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum.sums[0]), "+f"(sum.sums[1]), "+f"(sum.sums[2]), "+f"(sum.sums[3])
      : "r"(left.pairs[0]), "r"(left.pairs[1]), "r"(left.pairs[2]), "r"(left.pairs[3]), "r"(right.pairs[0]),
        "r"(right.pairs[1]));
}

#else

/// Computes sum += left · right on the host: the lanes exchange their elements, then each computes its four elements of
/// the sum.
inline void multiply_add(SumTile& sum, const LeftTile& left, const RightTile& right) {
  auto half = [](std::uint64_t word, int which) {
    bf16 number;
    number.bits = static_cast<std::uint16_t>(word >> (16 * which));
    return static_cast<float>(number);
  };
  auto both = [](std::uint32_t low, std::uint32_t high) { return low | static_cast<std::uint64_t>(high) << 32; };
  float a[16][16], b[16][8];
  for (int part = 0; part < 2; ++part) {  // columns 0 to 7 of A, then 8 to 15
    auto site = cuda_on_host::Site::current();
    const std::uint64_t* all = cuda_on_host::exchange(~0u, both(left.pairs[2 * part], left.pairs[2 * part + 1]), site);
    for (int lane = 0; lane < 32; ++lane)
      for (int k = 0; k < 4; ++k) a[lane / 4 + 8 * (k / 2)][8 * part + 2 * (lane % 4) + k % 2] = half(all[lane], k);
  }
  const std::uint64_t* all =
      cuda_on_host::exchange(~0u, both(right.pairs[0], right.pairs[1]), cuda_on_host::Site::current());
  for (int lane = 0; lane < 32; ++lane)
    for (int k = 0; k < 4; ++k) b[2 * (lane % 4) + k % 2 + 8 * (k / 2)][lane / 4] = half(all[lane], k);
  for (int k = 0; k < 4; ++k) {
    int mine = cuda_on_host::lane(), row = mine / 4 + 8 * (k / 2), column = 2 * (mine % 4) + k % 2;
    for (int j = 0; j < 16; ++j) sum.sums[k] += a[row][j] * b[j][column];
  }
}

#endif

}  // namespace fovea::cuda
