/// Which tiles of query-key pairs are seen: computed on the device, so that the host need not wait.
#pragma once
#include "attention/engine/lowered.h"
#include "cuda/attention/call.h"

namespace fovea::cuda {

/// The kinds of all tiles of a call, u8 [B or 1, H or 1, ceil(I / 64), ceil(J / 64)]; undefined if all pairs are seen.
Tensor make_tile_map(const LoweredCall& call, const SeenPairs& seen);

}  // namespace fovea::cuda
