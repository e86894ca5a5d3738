/// What methods see of an attention's input, before it is projected or split.
#pragma once
#include "attention/method.h"

namespace fovea {

/// States, visibility, lengths, positions and what a decoder passes on; `query`, `key` and `value`, the mask and the
/// projected states are the caller's to fill in. Throws where lengths and the shapes of queries and keys do not fit.
AttentionContext context_of(const AttentionInput& input, Place place);

/// The caller's mask, checked against the shape [B, H, I, J], in the type of the states: [B or 1, H or 1, I or 1, J],
/// or undefined.
Variable checked_mask(const Variable& mask, const Shape& pairs, DType dtype);

}  // namespace fovea
