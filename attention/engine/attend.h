/// Attention for one call, computed by an engine.
#pragma once
#include <cstdint>

#include "attention/plan.h"
#include "tensor/random.h"

namespace fovea {

/// The ways in which attend() can compute attention. All give the same result.
///
/// composed: plain differentiable operations on matrices of all pairs, in O(I J) memory.
///
/// blockwise: the same operations on blocks of queries, which the backward pass computes again, in O(I + J) memory; for
/// any plan.
///
/// fused: one pass over strips of the pairs, in O(I + J) memory. attend() throws Error for a method with a part that
/// has no fused form.
///
/// fastest: fused where every part has a fused form and there are more than a few keys; otherwise composed or, from
/// about four million pairs on, blockwise. A warning says once that the blockwise engine was taken.
///
/// A trace gets constants from the fused and the blockwise engine.
enum class AttentionEngine { fastest, fused, blockwise, composed };

/// The engine of the calling thread: that of its innermost AttentionEngineScope, `fastest` outside of all scopes.
AttentionEngine attention_engine();

/// The number of queries that the blockwise engine computes at once in the calling thread; 0: as many as have about
/// a million pairs, at least 16.
std::int64_t attention_block_queries();

/// Chooses the engine of the calling thread, and the blocks of the blockwise engine, for the lifetime of this object.
/// Other threads keep theirs.
class AttentionEngineScope {
 public:
  explicit AttentionEngineScope(AttentionEngine engine, std::int64_t block_queries = 0);
  ~AttentionEngineScope();
  AttentionEngineScope(const AttentionEngineScope&) = delete;
  AttentionEngineScope& operator=(const AttentionEngineScope&) = delete;

 private:
  AttentionEngine engine_before_;
  std::int64_t block_queries_before_;
};

/// Attention for one call, computed by attention_engine() → [B, H, I, D_v]. `dropout` is the probability in [0, 1) with
/// which a weight is zeroed. Fills `trace` unless it is null.
Variable attend(const AttentionContext& in, Plan plan, double dropout, AttentionTrace* trace);

/// Dropout of the attention weights. All engines draw the same mask.
struct AttentionDropout {
  double probability = 0;
  RandomPosition at = {};  ///< of this call

  /// The mask of weights [..., J]. Every row begins a group of the mask, so that an engine draws only the groups of the
  /// keys that a query sees.
  DropoutMask mask(std::int64_t keys) const { return DropoutMask(probability, at, keys > 1 ? keys : 1); }
};

}  // namespace fovea
