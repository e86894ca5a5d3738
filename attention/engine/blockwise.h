/// The blockwise engine: the composed engine's operations, one block of queries after the other. The backward pass
/// recomputes each block. Beside one block's matrices it needs O(I + J) memory, for any plan and on any device.
#pragma once
#include <memory>

#include "attention/engine/composed.h"

namespace fovea {

/// The same result as attend_composed(), with blocks of attention_block_queries(). Second derivatives are those of the
/// composed engine. The weights in a trace are constants, without gradients.
AttentionOutput attend_blockwise(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                                 const AttentionDropout& dropout, AttentionTrace* trace);

}  // namespace fovea
