/// The sizes of a block's tiles, and where they lie in its shared memory: for the kernels, and for the host that
/// launches them.
#pragma once
#include "tensor/formula/target.h"

namespace fovea::cuda {

enum class Pass { focus, forward, query_gradients, key_gradients };

/// A kernel of a pass, and the gradients that it makes: those of queries or keys and of captures (`score`), of values,
/// and of sources, a bit for each. Where rows are so wide that registers cannot hold all, several kernels share a pass.
/// With `focus`, a kernel that makes nothing but the gradient of the focus before each query; it comes before the
/// others.
struct Kernel {
  Pass pass;
  bool score = true, values = true;
  unsigned sources = ~0u;
  bool focus = false;
};

inline constexpr int most_pointers = 2, warp_rows = 16;

/// A block has 16 · warps rows, queries or keys, and takes `columns` of the others at a time.
struct BlockShape {
  int warps, columns;
  int width, value_width;          ///< of rows of queries and keys, and of values, rounded up to multiples of 16
  int factor_bytes, number_bytes;  ///< sizes of Spec::Factor and Spec::Number
  int slots;                       ///< captures with Index::offset that want a gradient
  int sources;                     ///< see sources.cuh
  bool hidden;                     ///< the score has a hidden layer: see hidden.cuh
  int segment;                     ///< length of the segments of keys that pointers point to, at most 16
  int stages;  ///< tiles of columns in shared memory: with 2, the next tile is copied while one is computed

  constexpr int rows() const { return warp_rows * warps; }
  /// How many of `count` keys, a multiple of 16, a tile has: whole segments.
  constexpr int key_step(int count) const { return count / 16 * (16 / segment * segment); }
  constexpr int query_tile(int count) const { return count * (width * factor_bytes + 16); }
  constexpr int value_tile(int count) const { return count * (value_width * factor_bytes + 16); }
};

/// The bits of dropout for so many queries: see KeptWeights.
FOVEA_HD constexpr int kept_bytes(int queries) { return 16 * queries; }

/// Where the tiles of a block lie in its shared memory, in bytes. First the block's own rows: queries or keys at 0, and
/// with `own_values` gradients of the output or values. Then one stage or two (BlockShape::stages), each for a tile of
/// columns: keys or queries, with `values` also values or gradients of the output, the bits of dropout for
/// `kept_queries` queries, and `numbers` numbers for each column. Offsets of columns are those in the first stage; the
/// second one lies `stage_bytes` behind it.
struct TilesMemory {
  int own_values_at, queries_at, values_at, kept_at, numbers_at, stage_bytes, end;
  constexpr TilesMemory(const BlockShape& s, bool own_values, bool values, int kept_queries, int numbers)
      : own_values_at(s.query_tile(s.rows())),
        queries_at(own_values_at + (own_values ? s.value_tile(s.rows()) : 0)),
        values_at(queries_at + s.query_tile(s.columns)),
        kept_at(values_at + (values ? s.value_tile(s.columns) : 0)),
        numbers_at(kept_at + kept_bytes(kept_queries)),
        stage_bytes(numbers_at + numbers * s.columns * s.number_bytes - queries_at),
        end(queries_at + s.stages * stage_bytes) {}
};

/// The memory of HiddenGradients, from byte `first` on.
struct HiddenMemory {
  int at, end;
  constexpr HiddenMemory(const BlockShape& s, int first)
      : at((first + 15) / 16 * 16), end(at + (s.hidden ? 2 * s.rows() * (s.width + 1) * s.number_bytes : 0)) {}
};

/// The memory of a block's sources, from byte `first` on.
struct SourcesMemory {
  int rows_at, columns_at, array_at, sums_at, sums_bytes, numbers_at, end;
  constexpr SourcesMemory(const BlockShape& s, int first)
      : rows_at(first),
        columns_at(rows_at + s.sources * s.query_tile(s.rows())),
        array_at(columns_at + s.sources * s.query_tile(s.columns)),
        sums_at(array_at + (s.sources > 0 && s.segment > 1 ? s.rows() * (s.columns + 1) * s.number_bytes : 0)),
        sums_bytes(s.sources * s.warps * s.columns * s.number_bytes),
        numbers_at(sums_at + 2 * sums_bytes),
        end(numbers_at + 5 * (s.sources < most_pointers ? s.sources : most_pointers) *
                             (s.rows() > s.columns ? s.rows() : s.columns) * s.number_bytes) {}
};

struct FocusMemory {
  TilesMemory tiles;
  int sums_at;
  SourcesMemory sources;
  int bytes;
  constexpr explicit FocusMemory(const BlockShape& s)
      : tiles(s, false, false, 0, 0),
        sums_at(tiles.end),
        sources(s, sums_at + (s.warps * s.number_bytes + 15) / 16 * 16),
        bytes(sources.end) {}
};

struct ForwardMemory {
  TilesMemory tiles;
  SourcesMemory sources;
  int bytes;
  constexpr explicit ForwardMemory(const BlockShape& s)
      : tiles(s, false, true, s.rows(), 0), sources(s, tiles.end), bytes(sources.end) {}
};

struct QueryOwnedMemory {
  TilesMemory tiles;
  int slots_at, slot_stride, slot_bytes, ends_at;
  SourcesMemory sources;
  HiddenMemory hidden;
  int bytes;
  constexpr explicit QueryOwnedMemory(const BlockShape& s)
      : tiles(s, true, true, s.rows(), 0),
        slots_at(tiles.end),
        slot_stride(s.columns + 1),
        slot_bytes(s.rows() * slot_stride * s.number_bytes),
        ends_at(slots_at + s.slots * slot_bytes),
        sources(s, (ends_at + (s.slots > 0 ? 64 * s.warps * s.number_bytes : 0) + 15) / 16 * 16),
        hidden(s, sources.end),
        bytes(hidden.end) {}
};

struct KeyOwnedMemory {
  static constexpr int numbers = 5;  ///< the members of QueryNumbers
  TilesMemory tiles;
  SourcesMemory sources;
  HiddenMemory hidden;
  int bytes;
  constexpr explicit KeyOwnedMemory(const BlockShape& s)
      : tiles(s, true, true, s.columns, numbers), sources(s, tiles.end), hidden(s, sources.end), bytes(hidden.end) {}
};

constexpr int shared_bytes(Pass pass, const BlockShape& shape) {
  return pass == Pass::focus             ? FocusMemory(shape).bytes
         : pass == Pass::forward         ? ForwardMemory(shape).bytes
         : pass == Pass::query_gradients ? QueryOwnedMemory(shape).bytes
                                         : KeyOwnedMemory(shape).bytes;
}

}  // namespace fovea::cuda
