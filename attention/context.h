/// What methods see of an attention's input, before it is projected or split.
#pragma once
#include <functional>

#include "attention/method.h"

namespace fovea {

/// States, visibility, lengths, positions and what a decoder passes on; `query`, `key` and `value`, the mask and the
/// projected states are the caller's to fill in. Throws where lengths and the shapes of queries and keys do not fit.
AttentionContext context_of(const AttentionInput& input, Place place);

/// Throws unless the memory has the keys of the queries before this call's, where it has any.
void require_kept_keys(const AttentionInput& input, const AttentionContext& in);

/// Queries and keys as `positioned`(heads [B, H, T, D], position of the first) makes them. `owner`: whose keys they
/// are.
void position_heads(AttentionContext& in, const void* owner,
                    const std::function<Variable(const Variable& heads, std::int64_t first)>& positioned);

/// The caller's mask, checked against the shape [B, H, I, J], in the type of the states: [B or 1, H or 1, I or 1, J],
/// or undefined.
Variable checked_mask(const Variable& mask, const Shape& pairs, DType dtype);

}  // namespace fovea
