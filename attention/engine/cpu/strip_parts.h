/// The parts of a plan on strips: what the fused engine makes of scores, terms and values.
#pragma once
#include <memory>
#include <vector>

#include "attention/engine/cpu/strip_score.h"
#include "attention/plan.h"

namespace fovea {

/// The part's form on strips; null if it has none. `in` is the context of the part's heads.
std::unique_ptr<StripScore> strips_of(const Score& score);
std::unique_ptr<StripTerm> strips_of(const PairTerm& term, const AttentionContext& in);
std::unique_ptr<StripValueTerm> strips_of(const ValueTerm& term, const AttentionContext& in);

/// A pointwise formula; `shape` has the sizes of the call for the term's heads.
std::unique_ptr<StripTerm> pointwise_strips(const PointwiseFormula& formula, const std::vector<Capture>& captures,
                                            const StripShape& shape);
/// Nguyen's window, from its captures.
std::unique_ptr<StripTerm> window_strips(const PointerWindow& window, const std::vector<Capture>& captures);
std::unique_ptr<StripTerm> renormalize_strips();
std::unique_ptr<StripValueTerm> relative_strips(const Variable& table, std::int64_t clip);

}  // namespace fovea
