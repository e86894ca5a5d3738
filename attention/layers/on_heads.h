/// Methods that act on some of the heads: their view of the inputs, and their terms extended to all heads.
#pragma once
#include "attention/method.h"

namespace fovea {

/// The heads first ≤ h < first + count.
struct HeadRange {
  int first, count;
};

/// The context restricted to these heads. Its `whole` is the original.
AttentionContext context_of_heads(const AttentionContext& in, HeadRange heads);

/// x [B, H, T, D] with LocalnessMethod::positioned() applied to these heads.
Variable positioned_heads(LocalnessMethod& method, const Variable& x, std::int64_t first, HeadRange heads);

/// Adds `terms`, those of a method on these heads, to `all`, those of all heads. They do not change other heads. `in`
/// is the context of all heads.
void add_on_heads(Terms& all, Terms terms, const AttentionContext& in, HeadRange heads);

}  // namespace fovea
