/// Construction of a call's AttentionContext from its AttentionInput.
#pragma once
#include <functional>

#include "attention/method.h"

namespace fovea {

/// Throws Error unless query, key and value are [B, I, d_q], [B, J, d_k] and [B, J, d_v] of these widths.
void require_states(const AttentionInput& input, std::int64_t query_dim, std::int64_t key_dim, std::int64_t value_dim);

/// A context with the input's states, visible keys, lengths, positions and decoder state. The caller adds `query`,
/// `key`, `value`, the projected states and the members that add_given() sets. Throws Error if lengths, documents, step
/// input or previous focus have a wrong shape, type or range.
AttentionContext context_of(const AttentionInput& input, Place place);

/// Throws Error unless the context has as many sentences and keys as the input requires. Otherwise the decoder's memory
/// holds the keys of another source or batch.
void require_stored_keys(const AttentionInput& input, const AttentionContext& in);

/// Encodes the positions `at` in heads [B, H, T, D], as LocalnessMethod::positioned() does.
using PositionHeads = std::function<Variable(const Variable& heads, const TokenPositions& at)>;

/// Applies `positioned` to the context's queries and keys. With a decoder's memory, each key is positioned once and
/// then kept in the memory under `owner`.
void position_heads(AttentionContext& in, const void* owner, const PositionHeads& positioned);

/// Applies `positioned` to the queries and keys of the plan's second maps; with a memory and SecondMap::owner, to each
/// key once. Maps whose score is not a product, or whose heads have another width than the context's, are not changed.
void position_second_maps(const AttentionContext& in, Plan& plan, const PositionHeads& positioned);

/// Adds to the context, which has queries and keys, the input's mask, allowed keys, pointers and grid, converted to the
/// type and device of the queries. Throws Error if one of them does not have the shape or type that AttentionInput
/// requires.
void add_given(AttentionContext& in, const AttentionInput& input);

/// The shape with widths of 0 replaced by model_dim.
AttentionShape with_widths(AttentionShape shape);

}  // namespace fovea
