/// The fused engine: attention of any stack of terms in O(I + J) memory. strips.h says how.
#pragma once
#include "attention/method.h"

namespace fovea {

/// attend_composed in strips; undefined where the device or a term has none. The gradients are computed in strips too;
/// second derivatives come from the composed form. The weights that `trace` gets are constants.
Variable attend_fused(const AttentionContext& in, const std::shared_ptr<const Terms>& terms,
                      const AttentionDropout& dropout, AttentionTrace* trace);

/// The variables that this call differentiates by: values, what the score and the terms read. Throws where a term has
/// no strips.
std::vector<Variable> fused_inputs(const AttentionContext& in, const std::shared_ptr<const Terms>& terms);

}  // namespace fovea
