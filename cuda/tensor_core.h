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

#ifdef FOVEA_CUDA_ON_HOST
#include "tensor/dtype.h"
#endif

namespace fovea::cuda {

/// A number in bf16, as bits.
struct Bf16 {
  std::uint16_t bits;
};

/// One lane's elements of A and of B, in the order of the list at the beginning of this file.
struct LeftTile {
  std::uint32_t pairs[4];
};
struct RightTile {
  std::uint32_t pairs[2];
};

/// Rounds two numbers to bf16, to the nearest, and packs them into one register, the first into the lower half.
__device__ inline std::uint32_t round_pair(float first, float second);

/// How a MatrixReader reads a tile of 16 × 16 numbers, as four matrices of 8 × 8. With g and t as above, pairs[m] gets
/// two elements of matrix m:
///   left           (g, 2t) and (g, 2t + 1); m = 0, 1, 2, 3 is the upper left, lower left, upper right, lower right
///   one:
///                  the operand A
///   right_of_rows  the same elements; upper left, upper right, lower left, lower right: pairs[0] and [1] are the
///                  operand B whose columns are the tile's rows 0 to 7, pairs[2] and [3] that of the rows 8 to 15
///   right          (2t, g) and (2t + 1, g), in the order of `left`: pairs[0] and [1] are the operand B of the tile's
///                  columns 0 to 7, pairs[2] and [3] that of the others
enum class TileOrder { left, right_of_rows, right };

/// Reads tiles of 16 × 16 numbers from a matrix in shared memory, whose rows are `stride` numbers apart and begin at
/// multiples of 16 bytes.
template <TileOrder order, int stride>
class MatrixReader {
 public:
  __device__ explicit MatrixReader(const Bf16* matrix);
  /// Reads the tile whose first row and column these are. All 32 lanes of the warp must call it together.
  __device__ void load(std::uint32_t (&pairs)[4], int row, int column) const;

 private:
#ifdef FOVEA_CUDA_ON_HOST
  const Bf16* matrix_;
#else
  std::uint32_t lane_;  ///< the address of row lane % 8 of matrix lane / 8, in the first tile
#endif
};

/// Computes sums += left · right; `sums` are the lane's elements of C and D. All 32 lanes of the warp must call it
/// together.
__device__ inline void multiply_add(float (&sums)[4], const LeftTile& left, const RightTile& right);

#ifndef FOVEA_CUDA_ON_HOST

__device__ inline std::uint32_t round_pair(float first, float second) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

template <TileOrder order, int stride>
__device__ MatrixReader<order, stride>::MatrixReader(const Bf16* matrix) {
  const int lane = static_cast<int>(threadIdx.x) % 32, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
  const int row = order == TileOrder::right_of_rows ? high : low,
            column = order == TileOrder::right_of_rows ? low : high;
  lane_ = static_cast<std::uint32_t>(__cvta_generic_to_shared(matrix + (row + lane % 8) * stride + column));
  // Without this, the compiler keeps the addresses of all tiles that a loop reads in registers, and spills.
  asm volatile("" : "+r"(lane_));
}

template <TileOrder order, int stride>
__device__ void MatrixReader<order, stride>::load(std::uint32_t (&pairs)[4], int row, int column) const {
  const std::uint32_t address = lane_ + static_cast<std::uint32_t>((row * stride + column) * sizeof(Bf16));
  if constexpr (order == TileOrder::right)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
                 : "r"(address)
                 : "memory");
}

__device__ inline void multiply_add(float (&sums)[4], const LeftTile& left, const RightTile& right) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left.pairs[0]), "r"(left.pairs[1]), "r"(left.pairs[2]), "r"(left.pairs[3]), "r"(right.pairs[0]),
        "r"(right.pairs[1]));
}

#else

inline std::uint32_t round_pair(float first, float second) {
  return bf16(first).bits | static_cast<std::uint32_t>(bf16(second).bits) << 16;
}

template <TileOrder order, int stride>
MatrixReader<order, stride>::MatrixReader(const Bf16* matrix) : matrix_(matrix) {}

template <TileOrder order, int stride>
void MatrixReader<order, stride>::load(std::uint32_t (&pairs)[4], int first_row, int first_column) const {
  __syncwarp();
  const Bf16* tile = matrix_ + first_row * stride + first_column;
  const int g = cuda_on_host::lane() / 4, t = cuda_on_host::lane() % 4;
  for (int m = 0; m < 4; ++m) {
    const int row = 8 * (order == TileOrder::right_of_rows ? m / 2 : m % 2),
              column = 8 * (order == TileOrder::right_of_rows ? m % 2 : m / 2);
    const Bf16* matrix = tile + row * stride + column;
    const bool transposed = order == TileOrder::right;
    const Bf16 first = transposed ? matrix[2 * t * stride + g] : matrix[g * stride + 2 * t],
               second = transposed ? matrix[(2 * t + 1) * stride + g] : matrix[g * stride + 2 * t + 1];
    pairs[m] = first.bits | static_cast<std::uint32_t>(second.bits) << 16;
  }
}

/// Computes sums += left · right on the host: the lanes exchange their elements, then each computes its four elements
/// of the sum.
inline void multiply_add(float (&sums)[4], const LeftTile& left, const RightTile& right) {
  auto half = [](std::uint64_t word, int which) {
    bf16 number;
    number.bits = static_cast<std::uint16_t>(word >> (16 * which));
    return static_cast<float>(number);
  };
  auto both = [](std::uint32_t low, std::uint32_t high) { return low | static_cast<std::uint64_t>(high) << 32; };
  const int g = cuda_on_host::lane() / 4, t = cuda_on_host::lane() % 4;
  float a[2][16], b[16][2];               // rows g and g + 8 of A, columns 2t and 2t + 1 of B
  for (int part = 0; part < 2; ++part) {  // columns 0 to 7 of A, then 8 to 15
    auto site = cuda_on_host::Site::current();
    const std::uint64_t* all = cuda_on_host::exchange(~0u, both(left.pairs[2 * part], left.pairs[2 * part + 1]), site);
    for (int k = 0; k < 8; ++k)
      for (int row = 0; row < 2; ++row) a[row][8 * part + k] = half(all[4 * g + k / 2], k % 2 + 2 * row);
  }
  const std::uint64_t* all =
      cuda_on_host::exchange(~0u, both(right.pairs[0], right.pairs[1]), cuda_on_host::Site::current());
  for (int k = 0; k < 16; ++k)
    for (int column = 0; column < 2; ++column)
      b[k][column] = half(all[4 * (2 * t + column) + k % 8 / 2], k % 2 + k / 8 * 2);
  for (int e = 0; e < 4; ++e)
    for (int k = 0; k < 16; ++k) sums[e] += a[e / 2][k] * b[k][e % 2];
}

#endif

}  // namespace fovea::cuda
