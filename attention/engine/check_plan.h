/// Checks what the authors of methods wrote, in one place for all engines.
#pragma once
#include "attention/plan.h"

namespace fovea {

/// Throws Error unless every part of the plan acts on heads that exist, has the captures that it reads, and has tensors
/// of the shapes, the type and the device that plan.h promises to engines. The message names the part, the tensor, what
/// was found and what is right. Engines compute only plans that have passed, so they do not look again.
void check_plan(const AttentionContext& in, const Plan& plan);

/// Returns `made`, the result of a part written by hand. Throws Error unless its shape is `expected`.
Variable checked_result(const char* part, const Variable& made, const Shape& expected);

}  // namespace fovea
