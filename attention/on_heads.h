/// Methods on some of the heads: what they see, and their terms as terms of all heads.
#pragma once
#include "attention/method.h"

namespace fovea {

/// Heads [first, first + count).
struct HeadRange {
  int first, count;
};

/// What a method on these heads sees.
AttentionContext context_of_heads(const AttentionContext& in, HeadRange heads);

/// A method's positioned() on its heads of x [B, H, T, D].
Variable positioned_heads(LocalnessMethod& method, const Variable& x, std::int64_t first, HeadRange heads);

/// Adds the terms of a method on these heads to those of all heads; the other heads pass through them. `in`: of all
/// heads.
void add_on_heads(Terms& all, Terms terms, const AttentionContext& in, HeadRange heads);

}  // namespace fovea
