/// The base of the three kernels. A block owns some rows of one head, 16 for each of its warps: queries in the forward
/// and the query-owned pass, keys in the key-owned one. It takes the others of the head, keys or queries, `columns` at
/// a time, and computes the tile of pairs that they form with its rows.
///
/// Tried, and did not pay: rounding the factors to bf16 in every block, and loading a tile only when it is needed. On
/// an H200 with heads of width 128, plain attention reached 110 TFLOP/s forward. It reaches 255 with factors that are
/// rounded once and tiles that are copied while the one before is computed (cuda/BENCHMARKS.md has the commands).
#pragma once
#include "cuda/attention/hidden.cuh"
#include "cuda/attention/layout.h"
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

/// `Memory` is where the kernel's tiles and sources lie in shared memory (layout.h).
template <class Spec, bool rows_are_queries, class Memory>
class BlockOfRows {
 public:
  static constexpr Memory memory{Spec::shape()};
  using T = typename Spec::Number;
  using Seen = SeenRow<Spec>;
  using QueryTile = Tile<typename Spec::Factor, Spec::width>;        ///< rows of queries or keys
  using ValueTile = Tile<typename Spec::Factor, Spec::value_width>;  ///< rows of values or gradients of the output
  static constexpr int rows = Spec::shape().rows(), columns = Spec::columns, threads = 32 * Spec::warps,
                       n = columns / 8;
  using PairStrip = Strip<T, n>;
  using QueryStrip = Strip<T, Spec::width / 8>;        ///< of queries or keys
  using ValueStrip = Strip<T, Spec::value_width / 8>;  ///< of values or the output

 protected:
  __device__ BlockOfRows(const AttentionCall<T>& call, const Spec& spec, BlockPlace at)
      : call_(call),
        spec_(spec),
        b_(at.b),
        h_(at.h),
        block_row_(rows_are_queries ? call.query_begin + at.tile * rows : at.tile * spec.key_step(rows)),
        row_(block_row_ + warp_rows * warp_of_thread()),
        row_end_(rows_are_queries ? lesser(block_row_ + rows, call.query_end)
                                  : lesser(block_row_ + spec.key_step(rows), call.keys)),
        captures_(call, spec, at.b, at.h, row_),
        sources_(call, spec, memory.sources, at.b, at.h, block_row_, row_) {}

  /// A tile of the columns first ≤ … < end. `all_seen`: all pairs of `columns` columns exist and are seen.
  struct ColumnTile {
    int first, end;
    bool all_seen;
  };
  /// Calls visit(tile) for each tile in which some pair is seen, and skip(first column) for the others, both in order;
  /// with two stages, a tile that is skipped may have its call before the visit of one that lies before it.
  /// Before a visit, load(first column, stage) has copied the tile's columns to that stage of the shared memory, and
  /// what the caller has loaded before is there too. With two stages, a tile is copied while the one before it is
  /// computed.
  template <class Load, class Visit, class Skip>
  __device__ void for_tiles(const Load& load, const Visit& visit, const Skip& skip) {
    const bool copies_ahead = Spec::shape().stages == 2 && spec_.sources() == 0;
    const auto visit_if = [&](bool is_time, const ColumnTile& tile) {
      if (!is_time || !exists(tile)) return;
      visit(tile);
    };
    ColumnTile tile{column_count(), rows_are_queries ? 0 : call_.query_begin, false};  // none, before the first
    while (true) {
      visit_if(!copies_ahead, tile);
      const ColumnTile next = next_tile(tile.end, skip);
      if (!copies_ahead) __syncthreads();
      if (exists(next)) load(next.first, copies_ahead ? 1 - stage_ : 0);
      visit_if(copies_ahead, tile);
      if (!exists(next)) break;
      wait_for_copies();
      __syncthreads();
      tile = next;
      if (copies_ahead) stage_ = 1 - stage_;
    }
    // If no tile was visited, nothing has waited for the block's own rows, and others may be loaded in their place.
    wait_for_copies();
  }
  template <class Load, class Visit>
  __device__ void for_tiles(const Load& load, const Visit& visit) {
    for_tiles(load, visit, [](int) {});
  }

  // Tiles in shared memory: the block's own rows, and the columns in the stage of the current tile.
  __device__ static QueryTile own_queries() { return QueryTile(0, rows); }
  __device__ static ValueTile own_values() { return ValueTile(memory.tiles.own_values_at, rows); }
  __device__ QueryTile column_queries() const { return column_queries(stage_); }
  __device__ ValueTile column_values() const { return column_values(stage_); }

  /// The factor that dropout gives to the weight of query i and key j, in the tile whose columns begin at `first`.
  __device__ T kept_factor(int i, int j, int first) const {
    return spec_.has_dropout() ? kept_in(stage_).factor(call_, i - (rows_are_queries ? block_row_ : first), j) : T(1);
  }

  /// Copies the block's own rows to shared memory: queries or keys.
  __device__ void load_own_queries() const { load_queries<rows_are_queries, rows>(own_queries(), block_row_); }
  /// The same for gradients of the output or values.
  __device__ void load_own_values() const { load_values<rows_are_queries, rows>(own_values(), block_row_); }
  /// Copies the keys or queries of a tile's columns to a stage.
  __device__ void load_column_queries(int first, int stage) const {
    load_queries<!rows_are_queries, columns>(column_queries(stage), first);
  }
  /// Copies all that a tile's columns have, and draws the bits of dropout.
  __device__ void load_columns(int first, int stage) const {
    load_column_queries(first, stage);
    if (spec_.has_output()) load_values<!rows_are_queries, columns>(column_values(stage), first);
    sources_.load_columns(first);
    if (spec_.has_dropout())
      kept_in(stage).template draw<threads>(call_, b_, h_, rows_are_queries ? block_row_ : first, kept_queries,
                                            rows_are_queries ? first : block_row_);
  }

  /// Adds the scores, without their scale, of the warp's rows and the tile's columns.
  __device__ void add_scores(PairStrip& strip) const {
    if (!spec_.has_product()) return;
    const int row = warp_rows * warp_of_thread();
    if constexpr (sizeof(typename Spec::Factor) == sizeof(T))
      if (spec_.has_hidden())
        return add_hidden_scores(strip, own_queries(), row, column_queries(), call_.hidden_weight.of(b_, h_),
                                 call_.width);
    add_product_of_rows(strip, own_queries(), row, column_queries());
  }

  /// Fills in which keys the queries of this lane see. Each tile in which only some pairs are seen calls this again:
  /// kept from tile to tile, the bounds would take registers, which the tiles that are seen as a whole need for their
  /// sums.
  __device__ void see_rows(Seen (&seen)[lane_rows]) const {
#pragma unroll
    for (int lane_row = 0; lane_row < lane_rows; ++lane_row)
      seen[lane_row] = Seen(call_.seen, b_, h_, computed_anew(existing_row(lane_row)));
  }

  /// The index in its head of this thread's row number `lane_row` (0 … lane_rows − 1), or the head's last row if the
  /// index would lie beyond it.
  __device__ int existing_row(int lane_row) const {
    const int row = row_ + strip_row(2 * lane_row), last = (rows_are_queries ? call_.queries : call_.keys) - 1;
    return row < last ? row : last;
  }
  __device__ bool has_row(int lane_row) const { return row_ + strip_row(2 * lane_row) < row_end_; }

  /// Whether queries see all keys that `visible` lets them see. (Pointers point to all of these, and with sources the
  /// map of tiles is of them.)
  __device__ bool sees_all_visible() const {
    const SeenPairs& seen = call_.seen;
    return seen.range_count == 0 && seen.mask_count == 0 && seen.dilation_count == 0;
  }

  /// Writes the block's rows of a result whose rows have `width` columns, times a factor for each row of the lane. Key
  /// gradients of later launches are added to those of the first.
  template <class Strip>
  __device__ void write(const Operand<T>& to, const Strip& sums, int width, const T (&factors)[lane_rows]) const {
    for_strip<Strip>([&](int c, int e) {
      const int column = strip_column(c, e);
      if (!has_row(e / 2) || column >= width) return;
      T& x = to.at(row_ + strip_row(e), column);
      const T own = sums.at[c][e] * factors[e / 2];
      x = adds() ? x + own : own;
    });
  }
  template <class Strip>
  __device__ void write(const Operand<T>& to, const Strip& sums, int width) const {
    T factors[lane_rows];
#pragma unroll
    for (T& factor : factors) factor = T(1);
    write(to, sums, width, factors);
  }

  __device__ bool adds() const { return !rows_are_queries && call_.query_begin > 0; }

  const AttentionCall<T>& call_;
  const Spec& spec_;
  int b_, h_, block_row_, row_, row_end_;  ///< the first row of the block and of this thread's warp; the block's end
  StripCaptures<Spec, rows_are_queries> captures_;
  BlockSources<Spec, rows_are_queries> sources_;
  int stage_ = 0;  ///< of the shared memory, in which the columns of the current tile lie

 private:
  static constexpr int kept_queries = rows_are_queries ? rows : columns;

  __device__ static QueryTile column_queries(int stage) {
    return QueryTile(memory.tiles.queries_at + stage * memory.tiles.stage_bytes, columns);
  }
  __device__ static ValueTile column_values(int stage) {
    return ValueTile(memory.tiles.values_at + stage * memory.tiles.stage_bytes, columns);
  }
  __device__ static KeptWeights kept_in(int stage) {
    return KeptWeights(memory.tiles.kept_at + stage * memory.tiles.stage_bytes, kept_queries);
  }

  /// Copies rows of an operand of this head to a tile in shared memory: `count` rows from `first` on, of `total`. Those
  /// of bf16 numbers are there after wait_for_copies() and a barrier, others after the barrier.
  template <int count, class P, int width>
  __device__ void load(const Tile<P, width>& tile, const Operand<const T>& from,
                       const Operand<const std::uint16_t>& rounded, int first, int total, int columns) const {
    if constexpr (sizeof(P) == sizeof(Bf16))
      start_copy_of_tile<threads, count>(tile, rounded.of(b_, h_), first, total);
    else
      load_tile<threads, count>(tile, from.of(b_, h_), first, total, columns);
  }
  /// The same for queries or, if not `of_queries`, keys.
  template <bool of_queries, int count>
  __device__ void load_queries(const QueryTile& tile, int first) const {
    if (!spec_.has_product()) return;
    if constexpr (of_queries)
      load<count>(tile, call_.query, call_.rounded.query, first, call_.queries, call_.width);
    else
      load<count>(tile, call_.key, call_.rounded.key, first, call_.keys, call_.width);
  }
  /// The same for gradients of the output or, if not `of_queries`, values.
  template <bool of_queries, int count>
  __device__ void load_values(const ValueTile& tile, int first) const {
    if constexpr (of_queries)
      load<count>(tile, call_.out_gradient, call_.rounded.out_gradient, first, call_.queries, call_.value_width);
    else
      load<count>(tile, call_.value, call_.rounded.value, first, call_.keys, call_.value_width);
  }

  /// Whether there is a tile: next_tile() returns one behind the last column if there is none.
  __device__ bool exists(const ColumnTile& tile) const { return tile.first < column_count(); }
  __device__ int column_count() const { return rows_are_queries ? call_.keys : call_.query_end; }

  /// The first tile from column `first` on in which some pair is seen.
  template <class Skip>
  __device__ ColumnTile next_tile(int first, const Skip& skip) const {
    const int step = rows_are_queries ? spec_.key_step(columns) : columns, count = column_count();
    for (; first < count; first += step) {
      const int end = lesser(first + step, count);
      const TileKind kind = rows_are_queries ? kind_of_tile(call_.tiles, b_, h_, block_row_, row_end_, first, end)
                                             : kind_of_tile(call_.tiles, b_, h_, first, end, block_row_, row_end_);
      if (kind == TileKind::none) {
        skip(first);
        continue;
      }
      return {first, end,
              kind == TileKind::full && block_row_ + rows <= row_end_ && first + columns <= end &&
                  (spec_.sources() == 0 || sees_all_visible())};
    }
    return {count, count, false};
  }

  /// Waits for the copies that this thread has started.
  __device__ static void wait_for_copies() {
    if constexpr (sizeof(typename Spec::Factor) != sizeof(Bf16)) return;
    close_copy_group();
    cuda::wait_for_copies<0>();
  }

  __device__ static int lesser(int a, int b) { return a < b ? a : b; }
};

}  // namespace fovea::cuda
