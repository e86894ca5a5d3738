/// Hard windows: intervals of keys around each query.
#pragma once
#include "attention/method.h"

namespace fovea {

/// The keys low ≤ j ≤ high. Both bounds are real numbers, in tokens, that broadcast to [B, H, I]. A bound that is NaN
/// hides nothing, so that a NaN in a window's centre still reaches the output through the other terms.
KeyRange keys_between(const Tensor& low, const Tensor& high);

/// The keys i − left ≤ j ≤ i + right for each query i; bounds [1, 1, I].
KeyRange keys_around(const AttentionContext& in, std::int64_t left, std::int64_t right);

/// Adds a hard window to the plan, and the quantity "range" for traces: the first and last key of the window that each
/// query may see, [B, H or 1, I, 2]. If there is no such key, last is less than first.
void add_range(Plan& plan, const AttentionContext& in, const KeyRange& range);

}  // namespace fovea
