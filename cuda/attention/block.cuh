/// The base of the three kernels. A block owns some rows of one head, 16 for each of its warps: queries in the forward
/// and the query-owned pass, keys in the key-owned one. It takes the others of the head, keys or queries, `columns` at
/// a time, and computes the tile of pairs that they form with its rows.
#pragma once
#include "cuda/attention/hidden.cuh"
#include "cuda/attention/sources.cuh"

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
  __device__ BlockOfRows(const AttentionCall<T>& call, const Spec& spec, BlockPlace at, const SourcesMemory& memory)
      : call_(call),
        spec_(spec),
        b_(at.b),
        h_(at.h),
        block_row_(rows_are_queries ? call.query_begin + at.tile * rows : at.tile * spec.key_step(rows)),
        row_(block_row_ + 16 * warp_of_thread()),
        row_end_(rows_are_queries ? lesser(block_row_ + rows, call.query_end)
                                  : lesser(block_row_ + spec.key_step(rows), call.keys)),
        captures_(call, spec, at.b, at.h, row_, block_row_, memory.arrays_at),
        sources_(call, spec, memory, at.b, at.h, block_row_, row_) {}

  /// A tile of the columns first ≤ … < end. `all_seen`: all pairs of `columns` columns exist and are seen.
  struct ColumnTile {
    int first, end;
    bool all_seen;
  };
  /// Calls visit(tile) for each tile in which some pair is seen, and skip(first column) for the others, in order.
  template <class Visit, class Skip>
  __device__ void for_tiles(const Visit& visit, const Skip& skip) {
    const int step = rows_are_queries ? spec_.key_step(columns) : columns,
              count = rows_are_queries ? call_.keys : call_.query_end;
    for (int first = rows_are_queries ? 0 : call_.query_begin; first < count; first += step) {
      const int end = lesser(first + step, count);
      const TileKind kind = rows_are_queries ? kind_of_tile(call_.tiles, b_, h_, block_row_, row_end_, first, end)
                                             : kind_of_tile(call_.tiles, b_, h_, first, end, block_row_, row_end_);
      if (kind == TileKind::none) {
        skip(first);
        continue;
      }
      captures_.begin_tile(first);
      visit(ColumnTile{first, end,
                       kind == TileKind::full && block_row_ + rows <= row_end_ && first + columns <= end &&
                           (spec_.sources() == 0 || sees_all_visible())});
    }
  }
  template <class Visit>
  __device__ void for_tiles(const Visit& visit) {
    for_tiles(visit, [](int) {});
  }

  /// Copies rows of an operand of this head to a tile in shared memory: `count` rows from `first` on, of `total`.
  template <int count, class P, int width>
  __device__ void load(const Tile<P, width>& tile, const Operand<const T>& from, int first, int total,
                       int columns) const {
    load_tile<threads, count>(tile, from.of(b_, h_), first, total, columns);
  }

  /// Adds the scores, without their scale, of the warp's rows of a tile and the rows of another.
  __device__ void add_scores(PairStrip& strip, const QueryTile& own, const QueryTile& others) const {
    if constexpr (sizeof(typename Spec::Factor) == sizeof(T))
      if (spec_.has_hidden())
        return add_hidden_scores(strip, own, 16 * warp_of_thread(), others, call_.hidden_weight.of(b_, h_),
                                 call_.width);
    add_product_of_rows(strip, own, 16 * warp_of_thread(), others);
  }

  /// Adds the gradients of the block's rows from those of a tile's scores, without their scale.
  __device__ void add_score_gradients(Strip<T, Spec::width / 8>& sums, const PairStrip& gradients, const QueryTile& own,
                                      const QueryTile& others, const HiddenGradients<Spec>& hidden) const {
    if constexpr (sizeof(typename Spec::Factor) == sizeof(T))
      if (spec_.has_hidden()) return hidden.add(gradients, own, 16 * warp_of_thread(), others);
    add_product(sums, gradients, others);
  }

  /// A row of this thread that exists: `half` of its two, or the last row of the head.
  __device__ int existing_row(int half) const {
    const int row = row_ + strip_row(2 * half), last = (rows_are_queries ? call_.queries : call_.keys) - 1;
    return row < last ? row : last;
  }
  __device__ bool has_row(int half) const { return row_ + strip_row(2 * half) < row_end_; }

  /// Whether queries see all keys that `visible` lets them see. (Pointers point to all of these, and with sources the
  /// map of tiles is of them.)
  __device__ bool sees_all_visible() const {
    const SeenPairs& seen = call_.seen;
    return seen.range_count == 0 && seen.mask_count == 0 && seen.dilation_count == 0;
  }

  /// Writes the block's rows of a result whose rows have `width` columns, times a factor for each row of the lane. Key
  /// gradients of later launches are added to those of the first.
  template <int m>
  __device__ void write(const Operand<T>& to, const Strip<T, m>& sums, int width, const T (&factors)[2]) const {
    for_strip<m>([&](int c, int e) {
      const int column = strip_column(c, e);
      if (!has_row(e / 2) || column >= width) return;
      T& x = to.at(row_ + strip_row(e), column);
      const T own = sums.at[c][e] * factors[e / 2];
      x = adds() ? x + own : own;
    });
  }
  template <int m>
  __device__ void write(const Operand<T>& to, const Strip<T, m>& sums, int width) const {
    write(to, sums, width, {T(1), T(1)});
  }

  __device__ bool adds() const { return !rows_are_queries && call_.query_begin > 0; }

  const AttentionCall<T>& call_;
  const Spec& spec_;
  int b_, h_, block_row_, row_, row_end_;  ///< the first row of the block and of this thread's warp; the block's end
  StripCaptures<Spec, rows_are_queries> captures_;
  BlockSources<Spec, rows_are_queries> sources_;

 private:
  __device__ static int lesser(int a, int b) { return a < b ? a : b; }
};

}  // namespace fovea::cuda
