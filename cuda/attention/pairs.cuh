/// Single pairs of a query and a key: which are seen, the numbers that formulas read for them, and which weights
/// dropout keeps.
///
/// A Spec is what is known of a group of heads when its kernels are compiled. NVRTC compiles kernels for a generated
/// one (cuda/attention/spec.h); on the host, one class calls the functions that the C++ compiler made of the formulas.
/// It has
///
///   Number, Factor        type of numbers, and of factors of products in shared memory: float, double or Bf16
///   width, value_width, warps, columns, shape()    see BlockShape
///   most, most_slots      room for captures, and for slots
///   most_always, most_dilations, most_masks    see SeenRow
///   captures(), logits()  number of captures, those of the logit first, and how many these are
///   index(k)              how capture k is found; wants(k): whether its gradient is needed
///   slots(), slot(k)      number of captures Index::offset that want a gradient, and the number of k among them
///   most_sources, sources(), pointers(), side(s), number_of_source(k), segment(), key_step(n)
///                         room for sources, their number, how many of them are pointers, the keys that a pointer may
///                         point to, which number of the sources capture k is (BlockSources), and see BlockShape
///   makes_score(), makes_values(), makes_source(s)    see Kernel
///   has_focus()           whether the call has a focus
///   has_output()          whether the forward pass makes an output, or only the softmax's maxima and totals
///   has_hidden()          whether the score is v · tanh(q + k) instead of a product; factors are not rounded then
///   has_product(), has_window(), has_sink(), has_dropout(), renormalizes(), has_densities(),
///   has_relative_values(), is_approximate()
///   continues()           whether the keys are added to those of an earlier call, with whose results a block begins
///   has_rows()            whether the forward pass writes row quantities
///   logit(x), logit_gradients(g, x, to), weight(x), weight_gradients(g, x, to): the formulas and their gradients, of
///   x = {logit, position of the query, position of the key, captures...}; a weight's formula is its factor at x[0] = 1
#pragma once
#include "cuda/attention/tile.cuh"

#ifdef FOVEA_CUDA_ON_HOST
#include <cmath>
#include <limits>
#endif

namespace fovea::cuda {

// ---- Functions of numbers

/// The logarithm of exp(x − base) to base 2: one fused multiply-add, because base · log2 e is the same for a row. Its
/// rounding is the error of approximate exponentials: relative to exp(x − base), about 2^-19 where |x| and |base| are
/// at most 16, and more in proportion to them.
__device__ inline float exponent_to_base_2(float x, float base) {
  constexpr float log2_e = 1.44269504f;
  return fmaf(x, log2_e, -(base * log2_e));
}

#ifdef FOVEA_CUDA_ON_HOST
using std::exp, std::log, std::tanh;
#else
using ::exp, ::log, ::tanh;
#endif

/// exp(x − base), where Spec::is_approximate() with the error of exponent_to_base_2().
template <class Spec, class T>
__device__ inline T exponential(T x, T base) {
  if constexpr (Spec::is_approximate() && sizeof(T) == 4) {
    float power = exponent_to_base_2(x, base);
#ifdef FOVEA_CUDA_ON_HOST
    power = std::exp2(power);
#else
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(power));
#endif
    return power;
  }
  return exp(x - base);
}
/// exp(before − now), by which sums relative to the maximum `before` become sums relative to the maximum `now`. It is 1
/// where the maximum has not changed: an approximate exponential of 0 keeps the rounding of base · log2 e, which would
/// multiply the sums once more in each tile. `now` may be −inf only if `before` is.
template <class Spec, class T>
__device__ inline T change_of_maximum(T before, T now) {
  return before == now ? T(1) : exponential<Spec>(before, now);
}
template <class T>
__device__ inline T minus_infinity() {
#ifdef FOVEA_CUDA_ON_HOST
  return -std::numeric_limits<T>::infinity();
#else
  return static_cast<T>(__longlong_as_double(0xfff0000000000000));
#endif
}

// ---- Which pairs are seen

/// The keys that one query sees. Room has most_always, most_dilations and most_masks, the largest numbers of those
/// parts of SeenPairs: a Spec, or AnySeenPairs.
template <class Room>
struct SeenRow {
  static constexpr int most_always = Room::most_always;
  std::int32_t first, end;                                                  ///< by the visible keys and all ranges
  std::int32_t always_first[most_always + 1], always_end[most_always + 1];  ///< by ranges that are always seen

  SeenRow() = default;
  __device__ SeenRow(const SeenPairs& seen, int b, int h, int i) {
    const std::int32_t visible_first = seen.visible.first.at(b, h, i), visible_end = seen.visible.end.at(b, h, i);
    first = visible_first, end = visible_end;
    for (int k = 0; k < seen.range_count; ++k) narrow(first, end, seen.ranges[k], b, h, i);
#pragma unroll
    for (int k = 0; k < most_always; ++k) {
      always_first[k] = visible_first, always_end[k] = visible_end;
      if (k < seen.always_count) narrow(always_first[k], always_end[k], seen.always[k], b, h, i);
    }
  }

  /// Whether the query of this row sees key j; `distance` is j − i in tokens.
  __device__ bool has(const SeenPairs& seen, int b, int h, int i, int j, int distance) const {
    bool sees = first <= j && j < end;
#pragma unroll
    for (int k = 0; k < Room::most_dilations; ++k)
      if (k < seen.dilation_count) sees = sees && distance % seen.dilations[k] == 0;
#pragma unroll
    for (int k = 0; k < most_always; ++k)
      if (k < seen.always_count) sees = sees || (always_first[k] <= j && j < always_end[k]);
#pragma unroll
    for (int k = 0; k < Room::most_masks; ++k)
      if (k < seen.mask_count) sees = sees && seen.masks[k].of(b, h).at(i, j);
    return sees;
  }

 private:
  __device__ static void narrow(std::int32_t& first, std::int32_t& end, const BoundedKeys& keys, int b, int h, int i) {
    const std::int32_t from = keys.first.at(b, h, i), to = keys.end.at(b, h, i);
    first = from > first ? from : first, end = to < end ? to : end;
  }
};

/// The largest numbers of parts that SeenPairs can have, for a kernel that serves all calls.
struct AnySeenPairs {
  static constexpr int most_always = most_ranges, most_dilations = cuda::most_dilations, most_masks = cuda::most_masks;
};

/// The kind of the tile of the queries i ≤ … < i_end and the keys j ≤ … < j_end.
__device__ inline TileKind kind_of_tile(const TileMap& map, int b, int h, int i, int i_end, int j, int j_end) {
  if (!map.kinds) return TileKind::full;
  const TileKind* kinds = map.kinds + b * map.sentence + h * map.head;
  const TileKind kind = kinds[i / map_tile * map.columns + j / map_tile];
  for (int r = i / map_tile; r <= (i_end - 1) / map_tile; ++r)
    for (int c = j / map_tile; c <= (j_end - 1) / map_tile; ++c)
      if (kinds[r * map.columns + c] != kind) return TileKind::part;
  return kind;
}

// ---- Captures

/// Whether a capture's numbers are those of a source.
__device__ constexpr bool is_of_source(Index index) {
  return index == Index::product || index == Index::up_to || index == Index::from;
}
/// Whether a capture has one number for all pairs of a query, or of a key.
__device__ constexpr bool is_of_query(Index index) {
  return index == Index::query || index == Index::head || index == Index::focus;
}
__device__ constexpr bool is_of_key(Index index) { return index == Index::key || index == Index::head; }

/// The entry of a capture that the pair (i, j) reads, in its last dimension.
__device__ inline std::int64_t entry_of(Index index, int clip, int j, int distance) {
  switch (index) {
    case Index::offset:
    case Index::query_offset:
      return (distance < -clip ? -clip : distance > clip ? clip : distance) + clip;
    case Index::query_column:
      return j < clip ? j : clip;
    case Index::key:
    case Index::pair:
      return j;
    default:
      return 0;
  }
}

/// Reads the captures of a strip, whose rows are queries or, in the key-owned pass, keys. The numbers that all pairs of
/// a row share are held in registers.
template <class Spec, bool rows_are_queries>
class StripCaptures {
 public:
  using T = typename Spec::Number;
  static constexpr int head_room = 3;  ///< of x, before the captures

  /// For the strip whose first row is `first`.
  __device__ StripCaptures(const AttentionCall<T>& call, const Spec& spec, int b, int h, int first)
      : call_(call), spec_(spec), b_(b), h_(h) {
#pragma unroll
    for (int k = 0; k < Spec::most; ++k)
      if (k < spec.captures() && is_of_row(spec.index(k)))
#pragma unroll
        for (int lane_row = 0; lane_row < lane_rows; ++lane_row) {
          const int last = (rows_are_queries ? call.queries : call.keys) - 1, at = first + strip_row(2 * lane_row);
          of_rows_[lane_row][k] = read(k, at < last ? at : last, at < last ? at : last);
        }
  }

  /// Whether one number of this capture serves all pairs of a row.
  __device__ static constexpr bool is_of_row(Index index) {
    return rows_are_queries ? is_of_query(index) : is_of_key(index);
  }

  /// Writes the positions and captures of the pair (i, j), element e of at[c], behind x[0]; those of the logit, or
  /// those of the weight. `sources` is the block's BlockSources.
  template <bool of_weight, class Sources>
  __device__ void fill(T* x, int c, int e, int i, int j, const Sources& sources) const {
    x[1] = static_cast<T>(call_.query_offset + i), x[2] = static_cast<T>(j);
#pragma unroll
    for (int k = 0; k < Spec::most; ++k) {
      if (k >= spec_.captures() || (k >= spec_.logits()) != of_weight) continue;
      T& to = x[head_room + k - (of_weight ? spec_.logits() : 0)];
      if (is_of_source(spec_.index(k)))
        to = sources.number(spec_.number_of_source(k), c, e);
      else
        to = is_of_row(spec_.index(k)) ? of_rows_[e / 2][k] : read(k, i, j);
    }
  }

  /// Writes what the logit of the pair (i, j) reads, of any row, where `focus` is the focus before query i.
  __device__ void fill_with_focus(T* x, int i, int j, T focus) const {
    x[1] = static_cast<T>(call_.query_offset + i), x[2] = static_cast<T>(j);
#pragma unroll
    for (int k = 0; k < Spec::most; ++k)
      if (k < spec_.logits()) x[head_room + k] = spec_.index(k) == Index::focus ? focus : read(k, i, j);
  }

 private:
  __device__ T read(int k, int i, int j) const {
    return call_.captures[k].of(b_, h_).at(i, entry_of(spec_.index(k), call_.clips[k], j, j - i - call_.query_offset));
  }

  const AttentionCall<T>& call_;
  const Spec& spec_;
  int b_, h_;
  T of_rows_[lane_rows][Spec::most];
};

// ---- Dropout

/// Says for each weight of a tile whether dropout keeps it, by the same random bits as on the CPU. They are drawn for
/// groups of DropoutMask::group keys (128), 16 bytes for a query and a group; a tile's keys lie in one group.
class KeptWeights {
 public:
  __device__ KeptWeights(int first_byte, int queries) : bits_(first_byte, kept_bytes(queries)) {}

  /// Draws the bits for `queries` queries from i on and the keys around j, by all threads of the block.
  template <int threads, class T>
  __device__ void draw(const AttentionCall<T>& call, int b, int h, int i, int queries, int j) {
    for (int k = static_cast<int>(threadIdx.x); k < 16 * queries; k += threads) {
      const std::int64_t row = (static_cast<std::int64_t>(b) * call.heads + h) * call.queries + i + k / 16;
      const auto words = call.dropout.words(row * call.dropout.groups_in_row() + j / DropoutMask::group, k % 16);
      unsigned kept = 0;
      for (int part = 0; part < 8; ++part) kept |= static_cast<unsigned>(call.dropout.keeps(words, part)) << part;
      bits_[k] = static_cast<std::uint8_t>(kept);
    }
  }
  /// The factor of the weight of query `row` of the tile and key j.
  template <class T>
  __device__ T factor(const AttentionCall<T>& call, int row, int j) const {
    const bool keeps = bits_[16 * row + j % 16] >> (j % DropoutMask::group / 16) & 1;
    return keeps ? static_cast<T>(call.dropout.scale()) : T(0);
  }

 private:
  SharedSpan<std::uint8_t> bits_;
};

/// Element (b, h, i) of [B, h, I].
template <class T>
__device__ inline std::int64_t row_number(const AttentionCall<T>& call, int b, int h, int i) {
  return (static_cast<std::int64_t>(b) * call.heads + h) * call.queries + i;
}

}  // namespace fovea::cuda
