#include <algorithm>

#include "cuda/attention/pairs.cuh"
#include "cuda/attention/seen.h"
#include "cuda/launch.h"

namespace fovea::cuda {

namespace {

/// A warp computes the kinds of all tiles of 64 queries, whose rows its lanes share.
__global__ void map_tiles(SeenPairs seen, TileMap map, int heads, int queries, int keys, int query_offset) {
  const int row_tiles = (queries + map_tile - 1) / map_tile;
  const BlockPlace at(heads, row_tiles);
  TileKind* kinds = map.kinds + at.b * map.sentence + at.h * map.head + at.tile * map.columns;
  for (int tile = 0; tile < map.columns; ++tile) {
    const int first = tile * map_tile, end = first + map_tile < keys ? first + map_tile : keys;
    bool any = false, all = true;
    for (int r = static_cast<int>(threadIdx.x); r < map_tile; r += warp_lanes) {
      const int i = at.tile * map_tile + r;
      if (i >= queries) continue;
      const SeenRow<AnySeenPairs> row(seen, at.b, at.h, i);
      if (seen.mask_count == 0 && seen.dilation_count == 0 && seen.always_count == 0) {
        const int from = row.first > first ? row.first : first, to = row.end < end ? row.end : end;
        any = any || from < to, all = all && from == first && to == end;
        continue;
      }
      for (int j = first; j < end; ++j) {
        const bool sees = row.has(seen, at.b, at.h, i, j, j - i - query_offset);
        any = any || sees, all = all && sees;
      }
    }
    any = __any_sync(~0u, any), all = __all_sync(~0u, all);
    if (threadIdx.x == 0) kinds[tile] = all ? TileKind::full : any ? TileKind::part : TileKind::none;
  }
}

}  // namespace

Tensor make_tile_map(const LoweredCall& call, const SeenPairs& seen) {
  std::vector<Tensor> bounds{call.visible.first, call.visible.end};
  for (const auto* ranges : {&call.ranges, &call.always})
    for (const KeyRange& range : *ranges) bounds.push_back(range.first), bounds.push_back(range.end);
  bool all_seen = call.masks.empty() && call.dilations.empty();
  std::int64_t B = 1, H = 1;
  auto widen = [&](const Tensor& x, int head_dimension) {  // counted from the end
    if (!x.defined()) return;
    all_seen = false;
    if (x.rank() >= head_dimension) H = std::max(H, x.size(-head_dimension));
    if (x.rank() > head_dimension) B = std::max(B, x.size(-head_dimension - 1));
  };
  for (const Tensor& bound : bounds) widen(bound, 2);
  for (const Tensor& mask : call.masks) widen(mask, 3);
  if (all_seen) return {};
  const std::int64_t I = call.query_count, J = call.values.size(2), rows = (I + map_tile - 1) / map_tile,
                     columns = (J + map_tile - 1) / map_tile;
  Tensor map = Tensor::empty({B, H, rows, columns}, DType::u8, call.values.device());
  if (map.elements() == 0) return map;
  auto* kinds = reinterpret_cast<TileKind*>(map.mutable_data<std::uint8_t>());
  launch("attention_tiles", map.elements(), map_tiles, {static_cast<unsigned>(B * H * rows), warp_lanes}, seen,
         TileMap{kinds, H * rows * columns, rows * columns, static_cast<std::int32_t>(columns)}, static_cast<int>(H),
         static_cast<int>(I), static_cast<int>(J), static_cast<int>(call.query_offset));
  return map;
}

}  // namespace fovea::cuda
