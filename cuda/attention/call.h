/// The arguments of the kernels of fused attention: one group of heads of one call (attention/engine/lowered.h).
///
/// NVRTC reads this file and the .cuh files beside it, before the Spec that is generated for a plan: they include no
/// header that the library does not carry.
///
/// Letters of shapes: B sentences, h heads of the group, I queries, J keys, n width of queries and keys, D width of
/// values.
#pragma once
#include <cstdint>

#include <cuda_runtime.h>

#include "tensor/formula/philox.h"

namespace fovea::cuda {

/// A tensor [B, h, rows, columns]. Strides are in elements, and 0 where the tensor is broadcast.
template <class T>
struct Operand {
  T* first;
  std::int64_t sentence, head, row, column;
  bool packed;  ///< whether rows begin at multiples of 16 bytes, and their elements are neighbours

  __device__ Operand of(int b, int h) const { return {first + b * sentence + h * head, 0, 0, row, column, packed}; }
  __device__ T& at(std::int64_t r, std::int64_t c) const { return first[r * row + c * column]; }
};

/// A bound of the keys that each query sees, i32 [B or 1, h or 1, I or 1].
struct Bound {
  const std::int32_t* numbers;  ///< null: the bound is `otherwise`, for each query `step` more than for the one before
  std::int64_t sentence, head, row;
  std::int32_t otherwise, step;
  __device__ std::int32_t at(int b, int h, int i) const {
    return numbers ? numbers[b * sentence + h * head + i * row] : otherwise + i * step;
  }
};
struct BoundedKeys {
  Bound first, end;
};

/// How the number of a capture is found for a pair: the kinds of Indexing in lowered.h.
enum class Index { head, query, key, pair, offset, query_offset, query_column, focus, product, up_to, from };

inline constexpr int most_captures = 12, most_ranges = 4, most_masks = 3, most_dilations = 2, most_sources = 3;

/// The keys that queries see, as LoweredCall says.
struct SeenPairs {
  BoundedKeys visible, ranges[most_ranges], always[most_ranges];
  Operand<const std::uint8_t> masks[most_masks];
  std::int32_t dilations[most_dilations];
  int range_count, always_count, mask_count, dilation_count;
};

/// The map of tiles: for 64 queries and 64 keys, whether none, a part or all of their pairs are seen.
enum class TileKind : std::uint8_t { none, part, full };
inline constexpr int map_tile = 64;
struct TileMap {
  TileKind* kinds;  ///< [B or 1, h or 1, ceil(I / 64), ceil(J / 64)]; null: all are full
  std::int64_t sentence, head;
  std::int32_t columns;
};

/// The keys that a pointer may point to: all that the query may see, those up to its own position, or those from it on.
enum class Side : std::uint8_t { all, up_to_query, from_query };

/// Queries and keys whose products, or pointers, a formula reads (sources.cuh). Widths are those of the call.
template <class T>
struct Source {
  Operand<const T> query, key;
  T scale;
  Operand<T> query_gradient, key_gradient;
  // of a pointer, for each query [B, h, I]:
  const T *maximum, *inverse;  ///< of its logits, as below
  Operand<const T> mean_key;   ///< Σ_j φ_ij k_j [B, h, I, n], where gradients are wanted
  T* slope;                    ///< Σ_j φ_ij Z_ij, from the query-owned backward pass to the key-owned one
};

/// The focus that goes from query to query: LoweredCall::focus.
template <class T>
struct Focus {
  Operand<const T> gate;      ///< g [B, h, I, 1]
  Operand<const T> previous;  ///< p before the first query [B, h, 1, 1]; null: it is `first`
  T first;
  double sigma, threshold;
  T *before, *after;                    ///< p before and after each query, [B, h, I]
  T* slope;                             ///< dp_i / dp_{i−1} [B, h, I]; or null
  std::int32_t *near_first, *near_end;  ///< the visible keys near the focus, [B, h, I]; or null
  T* products;                          ///< of at most 64 queries of each head with all keys, [B, h, 64, J]
  const T* gradient;                    ///< of `after`, in the backward pass; or null
};

/// The factors of products, as the bits of numbers in bf16: rows of Spec::width or Spec::value_width numbers, of which
/// those beyond the width of the call are 0.
struct RoundedFactors {
  Operand<const std::uint16_t> query, key, value, out_gradient;
};

/// One group of heads of one call. T is the type of the call's numbers, float or double.
template <class T>
struct AttentionCall {
  std::int32_t sentences, heads, queries, keys, width, value_width;
  std::int32_t query_offset;            ///< position of the first query
  std::int32_t query_begin, query_end;  ///< the queries of this launch; the first is a multiple of map_tile
  std::int32_t parts;                   ///< blocks of the query-owned backward pass for each head
  T scale;
  Operand<const T> query, key, value;
  RoundedFactors rounded;          ///< where Spec::Factor is Bf16; products read these instead
  Operand<const T> hidden_weight;  ///< v of an additive score [h or 1, n], see hidden.cuh
  Operand<T> out;
  Operand<const T> captures[most_captures];
  std::int32_t clips[most_captures];  ///< of offsets; for Index::query_column the last column
  const T* sink;                      ///< [h]
  std::int64_t sink_step;             ///< between the sinks of heads
  SeenPairs seen;
  TileMap tiles;
  DropoutMask dropout = DropoutMask(0, {});

  std::int32_t offset_clip;          ///< of the distances by which weights are summed
  T* offset_weights;                 ///< weights summed by distance [B, h, I, 2 offset_clip + 1], 0 at first; or null
  const T* offset_weight_gradients;  ///< their gradients; or null
  Source<T> sources[most_sources];   ///< pointers first
  std::int32_t carried_step;         ///< number of keys of a block of the key-owned pass, where there are pointers
  T* carried;                        ///< what the two backward passes carry of pointers, see sources.cuh

  Focus<T> focus;

  // For each query, [B, h, I]: what the backward pass needs to compute the weights again.
  T* maximum;  ///< the largest logit; 0 if no key is seen
  T* inverse;  ///< 1 / Σ_j exp(z_j − maximum); 0 if no key is seen
  T* weight;   ///< the sum of the weights before they are normalised again
  T* mean;     ///< g · o, from the query-owned backward pass to the key-owned one

  // Row quantities [B, h, I] (nn/row_quantities.h) that the forward pass writes where Spec::has_rows().
  T *row_maximum, *row_logsumexp, *row_entropy;
  std::int32_t* row_key;

  // The backward pass. Gradients of captures have the shape [B, h, I or J or 1, columns of the capture], those of a
  // table for all queries [parts, B, h, columns].
  Operand<const T> out_gradient;
  Operand<T> query_gradient, key_gradient, value_gradient;
  Operand<T> capture_gradients[most_captures];
  T* sink_gradient;                   ///< [B, h, I]
  Operand<T> hidden_weight_gradient;  ///< [B, h, parts, n]
};

}  // namespace fovea::cuda
