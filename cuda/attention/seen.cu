#include "cuda/attention/block.cuh"
#include "cuda/attention/seen.h"
#include "cuda/launch.h"

namespace fovea::cuda {

namespace {

/// A warp computes the kinds of all tiles of 64 queries, whose rows its lanes share.
__global__ void kinds_of_tiles(SeenPairs seen, TileMap map, int heads, int queries, int keys, int query_offset) {
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

void map_tiles(const SeenPairs& seen, const TileMap& map, int B, int H, int I, int J, int query_offset) {
  const int rows = (I + map_tile - 1) / map_tile;
  launch("attention_tiles", std::int64_t{B} * H * rows * map.columns, kinds_of_tiles,
         {static_cast<unsigned>(B) * static_cast<unsigned>(H) * static_cast<unsigned>(rows), warp_lanes}, seen, map, H,
         I, J, query_offset);
}

}  // namespace fovea::cuda
