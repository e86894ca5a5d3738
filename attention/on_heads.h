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

/// Lets a method change the queries and keys of its heads.
void prepare_heads(LocalnessMethod& method, AttentionContext& in, HeadRange heads);

/// Adds the terms of a method on these heads to those of all heads; the other heads pass through them. `in`: of all
/// heads.
void add_on_heads(Terms& all, Terms terms, const AttentionContext& in, HeadRange heads);

}  // namespace fovea
