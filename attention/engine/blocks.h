/// Which heads, queries and keys the blockwise engine computes at once: blocks of neighbouring queries with the keys
/// that any of them sees and no others, and with a dilation one residue class after the other.
#pragma once
#include <vector>

#include "attention/engine/seen_keys.h"

namespace fovea {

/// The indices first, first + step, ..., `count` of them.
struct Indices {
  std::int64_t first, count, step = 1;
};

/// The dimensions of heads, queries and keys of a tensor, counted from the last one, which is 1; 0: there is none.
struct PairDimensions {
  int head = 0, query = 0, key = 0;
};
/// The dimensions of what a part of a plan captures.
PairDimensions dimensions_of(Per per);

/// Pairs that are computed at once. No query of the block sees a key outside of it.
struct PairBlock {
  HeadRange heads;
  Indices queries, keys;
  /// Whether all pairs are as far apart as the dilations of these heads want.
  bool is_dilated = false;
};

/// The blocks of a call, which cover every head and query once. Blocks have at most `queries` queries; 0: as many as
/// have about a million pairs. On other devices than the CPU the bounds of hard windows are not looked at, which would
/// wait for the device: there only causality and dilations leave out keys. `every_key`: each block has all heads and
/// keys.
std::vector<PairBlock> pair_blocks(const AttentionContext& in, const Plan& plan, std::int64_t queries,
                                   bool every_key = false);

/// The indices `rows` of dimension `dimension`, counted from the last one, which is 1: a view. x itself if there is no
/// such dimension, or it is broadcast.
Tensor rows_of(const Tensor& x, int dimension, Indices rows);
/// The heads, queries and keys of the block, from a tensor of a part of the plan that acts on the heads `part`.
Tensor of_block(const Tensor& x, PairDimensions dimensions, HeadRange part, const PairBlock& block);
/// The bounds of a block's queries as indices into its keys.
KeyRange range_of_block(const KeyRange& range, HeadRange part, const PairBlock& block);

}  // namespace fovea
