/// The parts of a plan on strips: what the fused engine makes of scores, terms and values.
#pragma once
#include <memory>
#include <vector>

#include "attention/engine/cpu/strip_score.h"
#include "attention/plan.h"

namespace fovea {

/// The part's form on strips; null if it has none. `in` is the context of the part's heads.
template <class T>
std::unique_ptr<StripScore<T>> strips_of(const Score& score);
template <class T>
std::unique_ptr<StripTerm<T>> strips_of(const PairTerm& term, const AttentionContext& in);

/// A pointwise formula; `shape` has the sizes of the call for the term's heads.
template <class T>
std::unique_ptr<StripTerm<T>> pointwise_strips(const PointwiseFormula& formula, const std::vector<Capture>& captures,
                                               const StripShape& shape);
/// Nguyen's window, from its captures.
template <class T>
std::unique_ptr<StripTerm<T>> window_strips(const PointerWindow& window, const std::vector<Capture>& captures);
template <class T>
std::unique_ptr<StripTerm<T>> renormalize_strips();
template <class T>
std::unique_ptr<StripValueTerm<T>> relative_strips(const Variable& table, std::int64_t clip);

}  // namespace fovea
