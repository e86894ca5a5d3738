/// Hard windows: intervals of keys around each query.
#pragma once
#include "attention/method.h"

namespace fovea {

/// The keys low ≤ j ≤ high; both are real positions that broadcast to [B, H, I]. A position that is NaN is no bound:
/// what it was computed for is NaN at all keys then.
KeyRange keys_between(const Tensor& low, const Tensor& high);

/// The keys i − left ≤ j ≤ i + right for each query i, [1, 1, I].
KeyRange keys_around(const AttentionContext& in, std::int64_t left, std::int64_t right);

/// Adds a hard window to the plan, and the quantity "range" for traces: its first and last visible key, [B, H or 1,
/// I, 2]; last is less than first if there is none.
void add_range(Plan& plan, const AttentionContext& in, const KeyRange& range);

}  // namespace fovea
