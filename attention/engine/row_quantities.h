/// Row quantities from matrices of pairs, for engines that have such matrices, and what all engines do with them.
#pragma once
#include <vector>

#include "attention/context.h"
#include "nn/row_quantities.h"

namespace fovea {

/// The members of RowQuantities, to do the same with each of them.
inline constexpr Tensor RowQuantities::*row_quantities_members[] = {&RowQuantities::maximum, &RowQuantities::key,
                                                                    &RowQuantities::logsumexp, &RowQuantities::entropy,
                                                                    &RowQuantities::key_mass};

/// The quantities of queries with the weights [..., H, I, J] and the logits [..., H, I, J + N], −inf where a query does
/// not see a key. The last N columns belong to sinks and keys without tokens. Undefined logits: the heads compute none.
RowQuantities row_quantities(const Tensor& logits, const Tensor& weights);

/// Quantities in the layout of RowQuantities: [D, B, H, ...] becomes [B, H, ..., D], and [B, H, ...] stays as it is.
RowQuantities with_dimensions_last(RowQuantities rows);

/// The quantities of some heads.
RowQuantities slice_heads(const RowQuantities& rows, HeadRange heads);
/// Concatenates tensors [B, h, ...] along the heads. If a dimension of values comes last in some of them, [B, h, ...,
/// D], the others are broadcast to it. Throws Error if there are two different D.
Variable heads_side_by_side(std::vector<Variable> parts);
RowQuantities heads_side_by_side(const std::vector<RowQuantities>& parts);

}  // namespace fovea
