/// The fused engine: attention with any terms in O(I + J) memory. strips.h explains how it works.
#pragma once
#include "attention/engine/composed.h"

namespace fovea {

/// The result of attend_composed(), computed on strips. Undefined if a part of the plan or the device does not support
/// that. Gradients are computed on strips too; second derivatives use the composed form. A trace's weights are
/// constants.
Variable attend_fused(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                      const AttentionDropout& dropout, AttentionTrace* trace);

/// The variables that this call has gradients for: the values and what all parts of the plan read. Throws Error if a
/// term has no form on strips.
std::vector<Variable> fused_inputs(const AttentionContext& in, const std::shared_ptr<const Plan>& plan);

}  // namespace fovea
