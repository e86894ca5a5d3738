/// Tiles in shared memory, strips of sums in registers, and the two products of attention.
///
/// A warp computes strips of 16 rows and 8 n columns. Its lanes hold the sums as the matrix instruction
/// (cuda/tensor_core.h) lays them out, for every type of number: with g = lane / 4 and t = lane % 4, at[c] has the
/// elements (g, 8 c + 2 t), (g, 8 c + 2 t + 1), (g + 8, 8 c + 2 t) and (g + 8, 8 c + 2 t + 1). So four lanes share a
/// row, and a lane has numbers of two rows.
#pragma once
#include "cuda/async_copy.h"
#include "cuda/attention/call.h"
#include "cuda/attention/layout.h"
#include "cuda/device_loop.h"
#include "cuda/shared_memory.h"
#include "cuda/tensor_core.h"

namespace fovea::cuda {

__device__ inline int lane_of_thread() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int warp_of_thread() { return static_cast<int>(threadIdx.x) / 32; }

/// Returns x, and hides from the compiler that it is the same in each turn of a loop: what is computed from it is not
/// kept in registers, of which a kernel's sums leave few.
__device__ inline int computed_anew(int x) {
#ifndef FOVEA_CUDA_ON_HOST
  asm volatile("" : "+r"(x));
#endif
  return x;
}

/// The row and column, in a strip, of element e of at[c].
__device__ inline int strip_row(int e) { return lane_of_thread() / 4 + 8 * (e / 2); }
__device__ inline int strip_column(int c, int e) { return 8 * c + 2 * (lane_of_thread() % 4) + e % 2; }

inline constexpr int lane_rows = 2;  ///< rows of which a lane has numbers

template <class T, int n_>
struct Strip {
  static constexpr int n = n_;
  T at[n][4];

  __device__ void clear() {
#pragma unroll
    for (int c = 0; c < n; ++c)
#pragma unroll
      for (int e = 0; e < 4; ++e) at[c][e] = T(0);
  }
};

/// body(c, e) for the elements of a strip of this type that this lane holds.
template <class Strip, class Body>
__device__ inline void for_strip(const Body& body) {
#pragma unroll
  for (int c = 0; c < Strip::n; ++c)
#pragma unroll
    for (int e = 0; e < 4; ++e) body(c, e);
}

/// The sum, or the largest, of what the four lanes of a row have.
template <class T>
__device__ inline T sum_of_row(T mine) {
  mine += __shfl_xor_sync(~0u, mine, 1);
  return mine + __shfl_xor_sync(~0u, mine, 2);
}
template <class T>
__device__ inline T larger(T a, T b) {
#ifdef FOVEA_CUDA_ON_HOST
  return b > a ? b : a;
#else
  return ::max(a, b);
#endif
}
template <class T>
__device__ inline T largest_of_row(T mine) {
  mine = larger(mine, __shfl_xor_sync(~0u, mine, 1));
  return larger(mine, __shfl_xor_sync(~0u, mine, 2));
}

/// Rows of numbers in shared memory, as factors of type P: float, double or Bf16. Rows are padded by 16 bytes, so that
/// the lanes of a warp read different banks.
template <class P, int width>
struct Tile {
  static constexpr int pad = 16 / sizeof(P), stride = width + pad;
  SharedSpan<P> numbers;
  __device__ Tile(int first_byte, int rows) : numbers(first_byte, rows * stride) {}
  __device__ P& at(int row, int column) const { return numbers[row * stride + column]; }
};

/// Writes four neighbouring numbers to a tile, rounded to its type.
template <class T>
__device__ void store_four(T* to, const T (&x)[4]) {
  store_elements(x, to, 1, sizeof(x) == 16, 4);
}
__device__ inline void store_four(Bf16* to, const float (&x)[4]) {
  const std::uint32_t pairs[2] = {round_pair(x[0], x[1]), round_pair(x[2], x[3])};
  store_elements(pairs, reinterpret_cast<std::uint32_t*>(to), 1, true, 2);
}

/// Copies `rows` rows of `from` [count, columns], from row `first` on, to a tile, by all threads of the block. What
/// lies outside of the matrix is 0.
template <int threads, int rows, class P, int width, class T>
__device__ void load_tile(const Tile<P, width>& tile, const Operand<const T>& from, int first, int count, int columns) {
  constexpr int packs = width / 4, step = threads / packs;  // a thread's packs are in one column, `step` rows apart
  constexpr bool loads_packs = sizeof(T[4]) == 16;
  if (threads % packs == 0 && rows % step == 0 && from.packed && columns == width && first + rows <= count) {
    const int row = static_cast<int>(threadIdx.x) / packs, column = 4 * (static_cast<int>(threadIdx.x) % packs);
    const T* source = &from.at(first + row, column);
#pragma unroll 4
    for (int r = row; r < rows; r += step, source += step * from.row) {
      T x[4];
      load_elements(source, 1, loads_packs, 4, x);
      store_four(&tile.at(r, column), x);
    }
    return;
  }
#pragma unroll 1
  for (int k = static_cast<int>(threadIdx.x); k < rows * packs; k += threads) {
    const int row = k / packs, column = 4 * (k % packs), at = first + row;
    T x[4] = {T(0), T(0), T(0), T(0)};
    if (at < count && column + 4 <= columns)
      load_elements(&from.at(at, column), from.column, loads_packs && from.packed, 4, x);
    else if (at < count)
      for (int e = 0; e < 4; ++e)
        if (column + e < columns) x[e] = from.at(at, column + e);
    store_four(&tile.at(row, column), x);
  }
}

/// Starts copying `rows` rows of `from` [count, width], from row `first` on, to a tile, by all threads of the block.
template <int threads, int rows, int width>
__device__ void start_copy_of_tile(const Tile<Bf16, width>& tile, const Operand<const std::uint16_t>& from, int first,
                                   int count) {
  constexpr int packs = width / 8, step = threads / packs;  // as in load_tile()
  if (threads % packs == 0 && rows % step == 0 && first + rows <= count) {
    const int row = static_cast<int>(threadIdx.x) / packs, column = 8 * (static_cast<int>(threadIdx.x) % packs);
    const std::uint16_t* source = &from.at(first + row, column);
#pragma unroll
    for (int r = 0; r < rows; r += step, source += step * from.row)
      copy_16_bytes_async(&tile.at(row + r, column), source);
    return;
  }
#pragma unroll 1
  for (int k = static_cast<int>(threadIdx.x); k < rows * packs; k += threads) {
    const int row = k / packs, column = 8 * (k % packs);
    const bool exists = first + row < count;
    copy_16_bytes_async(&tile.at(row, column), &from.at(exists ? first + row : 0, column), exists);
  }
}

// ---- sums += A Bᵀ, for 16 rows of a tile A from `row` on, and a tile B with 8 n rows

template <class P, int width, int n>
__device__ void add_product_of_rows(Strip<P, n>& sums, const Tile<P, width>& a, int row, const Tile<P, width>& b) {
  const int g = lane_of_thread() / 4, t = lane_of_thread() % 4;
#pragma unroll 2
  for (int k = 0; k < width; k += 4) {
    P upper[4], lower[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) upper[u] = a.at(row + g, k + u), lower[u] = a.at(row + g + 8, k + u);
#pragma unroll
    for (int c = 0; c < n; ++c)
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        const P left = b.at(8 * c + 2 * t, k + u), right = b.at(8 * c + 2 * t + 1, k + u);
        sums.at[c][0] += upper[u] * left, sums.at[c][1] += upper[u] * right;
        sums.at[c][2] += lower[u] * left, sums.at[c][3] += lower[u] * right;
      }
  }
}

template <int width, int n>
__device__ void add_product_of_rows(Strip<float, n>& sums, const Tile<Bf16, width>& a, int row,
                                    const Tile<Bf16, width>& b) {
  const MatrixReader<TileOrder::left, Tile<Bf16, width>::stride> own(&a.at(row, 0));
  const MatrixReader<TileOrder::right_of_rows, Tile<Bf16, width>::stride> others(&b.at(0, 0));
#pragma unroll
  for (int k = 0; k < width; k += 16) {
    LeftTile left;
    own.load(left.pairs, 0, k);
#pragma unroll
    for (int c = 0; c < n; c += 2) {
      std::uint32_t four[4];
      others.load(four, 8 * c, k);
      multiply_add(sums.at[c], left, RightTile{{four[0], four[1]}});
      multiply_add(sums.at[c + 1], left, RightTile{{four[2], four[3]}});
    }
  }
}

// ---- sums += W B, for weights W of 16 rows in a strip, and a tile B with 8 n rows

template <class P, int width, int n>
__device__ void add_product(Strip<P, width / 8>& sums, const Strip<P, n>& weights, const Tile<P, width>& b) {
  const int t = lane_of_thread() % 4, first = lane_of_thread() - t;  // the first of the row's four lanes
#pragma unroll
  for (int c = 0; c < n; ++c)
#pragma unroll
    for (int k = 0; k < 8; ++k) {  // column 8 c + k of W is in lane k / 2
      const P upper = __shfl_sync(~0u, weights.at[c][k % 2], first + k / 2),
              lower = __shfl_sync(~0u, weights.at[c][2 + k % 2], first + k / 2);
#pragma unroll
      for (int m = 0; m < width / 8; ++m) {
        const P left = b.at(8 * c + k, 8 * m + 2 * t), right = b.at(8 * c + k, 8 * m + 2 * t + 1);
        sums.at[m][0] += upper * left, sums.at[m][1] += upper * right;
        sums.at[m][2] += lower * left, sums.at[m][3] += lower * right;
      }
    }
}

template <int width, int n>
__device__ void add_product(Strip<float, width / 8>& sums, const Strip<float, n>& weights, const Tile<Bf16, width>& b) {
  const MatrixReader<TileOrder::right, Tile<Bf16, width>::stride> rows(&b.at(0, 0));
#pragma unroll
  for (int c = 0; c < n; c += 2) {
    const float(&low)[4] = weights.at[c], (&high)[4] = weights.at[c + 1];
    const LeftTile left{{round_pair(low[0], low[1]), round_pair(low[2], low[3]), round_pair(high[0], high[1]),
                         round_pair(high[2], high[3])}};
#pragma unroll
    for (int m = 0; m < width / 8; m += 2) {
      std::uint32_t four[4];
      rows.load(four, 8 * c, 8 * m);
      multiply_add(sums.at[m], left, RightTile{{four[0], four[1]}});
      multiply_add(sums.at[m + 1], left, RightTile{{four[2], four[3]}});
    }
  }
}

}  // namespace fovea::cuda
