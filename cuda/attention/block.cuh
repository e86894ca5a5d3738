/// What a block of each of the three kernels has: a tile of rows, queries or keys, of one head, 16 for each of its
/// warps. It visits the tiles of the matrix of pairs that its rows share with `columns` keys, or queries, after one
/// another.
#pragma once
#include "cuda/attention/pairs.cuh"

namespace fovea::cuda {

/// The sentence, head and tile of a block; blockIdx.x counts tiles, then heads, then sentences.
struct BlockPlace {
  int b, h, tile;
  __device__ BlockPlace(int heads, int tiles) {
    const auto head = static_cast<int>(blockIdx.x) / tiles;
    tile = static_cast<int>(blockIdx.x) % tiles, b = head / heads, h = head % heads;
  }
};

template <class Spec, bool rows_are_queries>
class BlockOfRows {
 public:
  using T = typename Spec::Number;
  using Seen = SeenRow<Spec>;
  using QueryTile = Tile<typename Spec::Factor, Spec::width>;        ///< rows of queries or keys
  using ValueTile = Tile<typename Spec::Factor, Spec::value_width>;  ///< rows of values or gradients of the output
  static constexpr int rows = Spec::shape().rows(), columns = Spec::columns, threads = 32 * Spec::warps,
                       n = columns / 8;
  using PairStrip = Strip<T, n>;

 protected:
  __device__ BlockOfRows(const AttentionCall<T>& call, const Spec& spec, BlockPlace at)
      : call_(call),
        spec_(spec),
        b_(at.b),
        h_(at.h),
        block_row_(at.tile * rows),
        row_(block_row_ + 16 * warp_of_thread()),
        captures_(call, spec, at.b, at.h, row_) {}

  /// Calls visit(first column, whether all pairs of the tile exist and are seen) for each tile in which some pair is
  /// seen.
  template <class Visit>
  __device__ void for_tiles(const Visit& visit) const {
    const int row_count = rows_are_queries ? call_.queries : call_.keys,
              column_count = rows_are_queries ? call_.keys : call_.queries;
    for (int first = 0; first < column_count; first += columns) {
      const TileKind kind = kind_of_tile(call_.tiles, b_, h_, rows_are_queries ? block_row_ : first,
                                         rows_are_queries ? first : block_row_);
      if (kind == TileKind::none) continue;
      visit(first, kind == TileKind::full && block_row_ + rows <= row_count && first + columns <= column_count);
    }
  }

  /// Copies rows of an operand of this head to a tile in shared memory: `count` rows from `first` on, of `total`.
  template <int count, class P, int width>
  __device__ void load(const Tile<P, width>& tile, const Operand<const T>& from, int first, int total,
                       int columns) const {
    load_tile<threads, count>(tile, from.of(b_, h_), first, total, columns);
  }

  /// A row of this thread that exists: `half` of its two, or the last row of the head.
  __device__ int existing_row(int half) const {
    const int row = row_ + strip_row(2 * half), last = (rows_are_queries ? call_.queries : call_.keys) - 1;
    return row < last ? row : last;
  }
  __device__ bool has_row(int half) const {
    return row_ + strip_row(2 * half) < (rows_are_queries ? call_.queries : call_.keys);
  }

  /// Writes the block's rows of a result whose rows have `width` columns, times a factor for each row of the lane.
  template <int m>
  __device__ void write(const Operand<T>& to, const Strip<T, m>& sums, int width, const T (&factors)[2]) const {
    for_strip<m>([&](int c, int e) {
      const int column = strip_column(c, e);
      if (has_row(e / 2) && column < width) to.at(row_ + strip_row(e), column) = sums.at[c][e] * factors[e / 2];
    });
  }
  template <int m>
  __device__ void write(const Operand<T>& to, const Strip<T, m>& sums, int width) const {
    write(to, sums, width, {T(1), T(1)});
  }

  const AttentionCall<T>& call_;
  const Spec& spec_;
  int b_, h_, block_row_, row_;  ///< the first row of the block, and of this thread's warp
  StripCaptures<Spec, rows_are_queries> captures_;
};

}  // namespace fovea::cuda
