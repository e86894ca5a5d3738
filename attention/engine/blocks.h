/// The division of a call into blocks for the blockwise engine. A block has neighbouring queries and only the keys from
/// the first to the last that one of its queries sees. With a dilation of n, a block has queries and keys that are
/// equal modulo n.
#pragma once
#include <functional>
#include <vector>

#include "attention/engine/seen_keys.h"

namespace fovea {

/// The indices first, first + step, ..., `count` of them.
struct Indices {
  std::int64_t first, count, step = 1;
};

/// Which dimensions of a tensor are its heads, queries and keys. Dimensions are counted from the end, 1 is the last; 0:
/// the tensor has no such dimension.
struct PairDimensions {
  int head = 0, query = 0, key = 0;
};
/// The dimensions of a capture of this kind.
PairDimensions dimensions_of(Per per);

/// Query-key pairs that are computed together. No query of the block sees a key outside of the block.
struct PairBlock {
  HeadRange heads;
  Indices queries, keys;
  /// Whether every pair of the block satisfies the dilations of its heads, so that no mask for them is needed.
  bool is_dilated = false;
};

/// The blocks of a call; each pair of a head and a query is in exactly one. Blocks have at most `queries` queries; 0: a
/// number for which a block has about a million query-key pairs. Only on the CPU do blocks leave out keys outside of
/// hard windows: on other devices, reading the windows' bounds would wait for the device, and blocks leave out only
/// keys hidden by causality or dilations. `every_key`: each block has all heads and all keys.
std::vector<PairBlock> pair_blocks(const AttentionContext& in, const Plan& plan, std::int64_t queries,
                                   bool every_key = false);

/// Calls f(variable, dimensions, heads) for each variable that a plan on H heads reads; `heads` are those that the
/// variable's part of the plan acts on. f may replace the variables.
void for_variables(Plan& plan, std::int64_t H, const std::function<void(Variable&, PairDimensions, HeadRange)>& f);

/// Removes the parts of a plan on H heads that act on none of `heads`, and numbers the heads of the others relative to
/// heads.first. Tensors, the focus and the sink stay as they are.
void keep_heads(Plan& plan, HeadRange heads, std::int64_t H);

/// The plan of these heads alone: of all parts on H heads, what acts on them. No mixing of heads or focus acts on some
/// of them and on other heads too. Quantities stay as they are.
Plan plan_of_heads(Plan plan, HeadRange heads, std::int64_t H);

/// A view of x with the indices `rows` of one dimension, which is counted from the end: 1 is the last. Returns x itself
/// if `dimension` is 0, or if x is undefined or has size 1 there.
Tensor rows_of(const Tensor& x, int dimension, Indices rows);
/// A view of x with the heads, queries and keys of the block. x belongs to a part of the plan that acts on the heads
/// `part`. Undefined if the block has none of these heads.
Tensor of_block(const Tensor& x, PairDimensions dimensions, HeadRange part, const PairBlock& block);
/// The ranges of the block's queries, with bounds as indices into the block's keys.
KeyRange range_of_block(const KeyRange& range, HeadRange part, const PairBlock& block);

}  // namespace fovea
