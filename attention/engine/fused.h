/// The fused engine: attention with any terms in O(I + J) memory. cpu/strips.h explains how it works on the CPU,
/// tiles.h on a GPU.
#pragma once
#include "attention/engine/composed.h"

namespace fovea {

struct FusedOutput : AttentionOutput {
  const char* missing = nullptr;  ///< the part of the plan that has no fused form, a string literal; null: none
};

/// The same result as attend_composed(); so are the gradients. `out` is undefined if a part of the plan has no fused
/// form; `missing` then names it. Second derivatives are those of the composed engine. The weights in a trace are
/// constants, without gradients.
FusedOutput attend_fused(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                         const AttentionDropout& dropout, AttentionTrace* trace);

}  // namespace fovea
