/// The blockwise engine: the composed engine's operations on blocks of queries, which the backward pass computes again.
/// It needs O(I + J) memory beside a block's matrices, for any plan and on any device.
#pragma once
#include <memory>

#include "attention/engine/composed.h"

namespace fovea {

/// The result of attend_composed(). Second derivatives use the composed form. A trace gets constants.
AttentionOutput attend_blockwise(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                                 const AttentionDropout& dropout, AttentionTrace* trace);

}  // namespace fovea
