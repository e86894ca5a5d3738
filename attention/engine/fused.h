/// The fused engine: attention with any terms in O(I + J) memory. strips.h explains how it works.
#pragma once
#include "attention/engine/composed.h"

namespace fovea {

/// The result of attend_composed(), computed on strips. Undefined if a part of the plan or the device does not support
/// that. Gradients are computed on strips too; second derivatives use the composed form. A trace's weights are
/// constants.
AttentionOutput attend_fused(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                             const AttentionDropout& dropout, AttentionTrace* trace);

}  // namespace fovea
