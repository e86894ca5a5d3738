/// Constructing the AttentionContext of a call from its AttentionInput.
#pragma once
#include <functional>

#include "attention/method.h"

namespace fovea {

/// A context with the input's states, visible keys, lengths, positions and decoder state. The caller fills in `query`,
/// `key`, `value`, `mask` and the projected states. Throws Error if lengths, step input or previous focus do not have
/// the shape or range that queries and keys require.
AttentionContext context_of(const AttentionInput& input, Place place);

/// Throws Error unless the keys of the context, which may come from the decoder's memory, are those that the input
/// should have: a memory must not be used for another source or batch.
void require_stored_keys(const AttentionInput& input, const AttentionContext& in);

/// A function from heads [B, H, T, D] and their positions to the heads in these positions.
using PositionHeads = std::function<Variable(const Variable& heads, const TokenPositions& at)>;

/// Replaces the context's queries and keys by positioned(heads, their positions). Keys are positioned once and stored
/// in the decoder's memory under `owner`, if there is one.
void position_heads(AttentionContext& in, const void* owner, const PositionHeads& positioned);

/// Replaces queries and keys of the plan's second maps by positioned(heads, their positions), as position_heads() does
/// those of the context; keys once, if the map has an owner. Maps of another form than the product, or of another
/// width, are left alone.
void position_second_maps(const AttentionContext& in, Plan& plan, const PositionHeads& positioned);

/// Fills in what the caller gives for pairs, queries and keys: mask, allowed keys, pointers and grid. `pairs` is [B, H,
/// I, J]. Throws Error for what does not fit these sizes.
void add_given(AttentionContext& in, const AttentionInput& input, const Shape& pairs);

/// The mask [B or 1, H or 1, I or 1, J] cast to `dtype`; undefined if it is. `pairs` is [B, H, I, J]. Throws Error for
/// a mask of another shape.
Variable checked_mask(const Variable& mask, const Shape& pairs, DType dtype);

/// AttentionInput::allowed as bool on this device; undefined if it is. Throws Error for another type or shape than
/// bool or u8 [B or 1, H or 1, I or 1, J], where `pairs` is [B, H, I, J].
Tensor checked_allowed(const Tensor& allowed, const Shape& pairs, Device device);

}  // namespace fovea
