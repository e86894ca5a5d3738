/// The innermost loop of a matrix product: a tile of the result stays in registers during the loop over the inner
/// dimension.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "tensor/cpu/packing.h"

namespace fovea {

/// Returns sum + a b, lane by lane.
template <class T>
FOVEA_INLINE Vec<T> add_product(Vec<T> sum, Vec<T> a, Vec<T> b) {
  return sum + a * b;
}

/// The operands of one tile of a product: c [rows, columns] = alpha a [rows, k] b [k, columns] + beta c. Rows of b and
/// c are contiguous; a has any strides. Factor is the type of an element of a and b: T, or another type of that size
/// with an add_product() of its own, such as a pair of bf16 numbers, which counts as one element along k.
template <class T, class Factor = T>
struct RegisterTile {
  std::int64_t k;
  T alpha, beta;
  const Factor* b;  ///< read in whole vectors: `columns` is rounded up to a multiple of the lanes
  std::int64_t b_row;
  int columns;  ///< columns of c that are written
  const Factor* a = nullptr;
  std::int64_t a_row = 0, a_column = 0;
  T* c = nullptr;
  std::int64_t c_row = 0;
};

inline constexpr int widest_tile = 8;   ///< in vectors of columns
inline constexpr int tallest_tile = 8;  ///< in rows

#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int vector_registers = 32;
#else
inline constexpr int vector_registers = 16;
#endif

/// Returns the largest number of rows that a tile of this width, in vectors, can have: its sums, one row of b and one
/// element of a must fit into the registers. Tiles of four vectors have at most two rows and wider ones one, because
/// they are used only for products that have no more.
constexpr int tile_rows(int vectors) {
  if (vectors > 4) return 1;
  if (vectors == 4) return 2;
  return std::min(tallest_tile, (vector_registers - vectors - 1) / vectors);
}

/// Computes one tile, without reading c if beta is 0. The sum over k is one chain of fused multiply-adds per element,
/// whatever the tile's size.
template <class T, class Factor, int rows, int vectors>
void multiply_tile(const RegisterTile<T, Factor>& tile) {
  using V = Vec<T>;
  V sum[rows][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sum[i][v] = V(T(0));

  const Factor *a = tile.a, *b = tile.b;
  const std::int64_t a_row = tile.a_row, a_column = tile.a_column, b_row = tile.b_row;
  for (std::int64_t p = tile.k; p > 0; --p, a += a_column, b += b_row) {
    Vec<Factor> row[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) row[v] = Vec<Factor>::load(b + v * V::lanes);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      Vec<Factor> element(a[i * a_row]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sum[i][v] = add_product(sum[i][v], element, row[v]);
    }
  }

  T* c = tile.c;
  const V alpha(tile.alpha), beta(tile.beta);
  const int last = tile.columns - (vectors - 1) * V::lanes;
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i, c += tile.c_row) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      T* to = c + v * V::lanes;
      V value = alpha * sum[i][v];
      if (v < vectors - 1 || last == V::lanes) {
        if (tile.beta != 0) value = fma(beta, V::load(to), value);
        value.store(to);
      } else {
        if (tile.beta != 0) value = fma(beta, V::load_partial(to, last), value);
        value.store_partial(to, last);
      }
    }
  }
}

template <class T, class Factor>
using TileKernel = void (*)(const RegisterTile<T, Factor>&);

template <class T, class Factor, int vectors>
constexpr auto kernels_of_width = []<int... r>(std::integer_sequence<int, r...>) {
  return std::array<TileKernel<T, Factor>, tallest_tile>{
      (r < tile_rows(vectors) ? &multiply_tile<T, Factor, std::min(r + 1, tile_rows(vectors)), vectors> : nullptr)...};
}
(std::make_integer_sequence<int, tallest_tile>{});

/// The functions for tiles of each size, at [vectors - 1][rows - 1]. All heights up to tile_rows(vectors) exist, so
/// that the last rows of a matrix are not padded to a full tile.
template <class T, class Factor = T>
constexpr auto tile_kernels = []<int... v>(std::integer_sequence<int, v...>) {
  return std::array{kernels_of_width<T, Factor, v + 1>...};
}
(std::make_integer_sequence<int, widest_tile>{});

/// Divides `whole` items into `parts` ranges whose sizes differ by at most one.
struct EvenSplit {
  std::int64_t whole = 0, parts = 0;
  std::int64_t begin(std::int64_t part) const { return part * (whole / parts) + std::min(part, whole % parts); }
};

/// Computes c = alpha a b + beta c for m rows of a and c, in tiles that are `vectors` wide. `tile` holds what all tiles
/// share: b, its row stride, k, alpha, beta and columns. Calls before(rows) before each tile, with the tile's number of
/// rows.
template <class T, class Factor, class Before>
void multiply_tiles(RegisterTile<T, Factor> tile, int vectors, std::int64_t m, MatrixView<const Factor> a,
                    MatrixView<T> c, const Before& before) {
  const auto& kernels = tile_kernels<T, Factor>[static_cast<std::size_t>(vectors - 1)];
  const EvenSplit rows{m, (m + tile_rows(vectors) - 1) / tile_rows(vectors)};
  tile.a_row = a.row_stride, tile.a_column = a.column_stride, tile.c_row = c.row_stride;
  for (std::int64_t part = 0, begin = 0; part < rows.parts; ++part) {
    const std::int64_t end = rows.begin(part + 1);
    before(end - begin);
    tile.a = a.at(begin, 0);
    tile.c = c.at(begin, 0);
    kernels[static_cast<std::size_t>(end - begin - 1)](tile);
    begin = end;
  }
}

}  // namespace fovea
