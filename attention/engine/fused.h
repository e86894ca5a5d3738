/// The fused engine: attention with any terms in O(I + J) memory, on the CPU. cpu/strips.h explains how it works.
#pragma once
#include "attention/engine/composed.h"

namespace fovea {

struct FusedOutput : AttentionOutput {
  const char* missing = nullptr;  ///< the part of the plan that has no form on strips, a string literal; null: none
};

/// The same result as attend_composed(), computed on strips; so are the gradients. `out` is undefined if a part of the
/// plan has no form on strips; `missing` then names it. Throws Error if the tensors are not on the CPU. Second
/// derivatives are those of the composed engine. The weights in a trace are constants, without gradients.
FusedOutput attend_fused(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                         const AttentionDropout& dropout, AttentionTrace* trace);

}  // namespace fovea
