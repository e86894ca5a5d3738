/// Which tiles of query-key pairs are seen: computed on the device, so that the host need not wait.
#pragma once
#include "cuda/attention/call.h"

namespace fovea::cuda {

/// Appends to the stream the kernel that writes the kinds of all tiles, for B sentences and H heads of the map, I
/// queries and J keys. `query_offset` is the position of the first query.
void map_tiles(const SeenPairs& seen, const TileMap& map, int B, int H, int I, int J, int query_offset);

}  // namespace fovea::cuda
