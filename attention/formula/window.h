/// The differentiable window between two soft pointers, in plain differentiable operations.
/// Nguyen et al. 2020, "Differentiable Window for Dynamic Local Attention", eq. 7-17.
///
///     φ^L_i = softmax_j(q^L_i · k^L_j / sqrt(D))    left pointer, over the keys that i may see; φ^R_i the right one
///     F_j = Σ_{k ≤ e(j)} φ_k                        e(j), a(j): last and first key of j's segment; = j if b = 1
///     S_j = Σ_{k ≥ a(j)} φ_k
///     m̂_j = F^L_j S^R_j + F^R_j S^L_j               in [0, 2], because l = j = r counts twice
///
///     multiplicative (MW)  w = softmax(s) · m̂                       after the softmax, not normalised again
///     additive (AW)        z = s + (q^loc · k^loc / sqrt(D)) · m̂    before the softmax
#pragma once
#include <cstdint>

#include "attention/context.h"
#include "attention/formula/pointwise.h"

namespace fovea {

/// A differentiable window as a term of a plan. The term's captures are, in this order, q^L [B, H, I, D], k^L [B, H, J,
/// D], q^R, k^R and, for an additive window, q^loc and k^loc.
struct PointerWindow {
  /// How m̂ is computed from the products x = F^L S^R and y = F^R S^L:
  ///   paper:    x + y, eq. 9
  ///   exact:    x + y less the double count of l = j = r: the expectation of the discrete mask over l and r
  ///   either:   x + y − x y
  ///   discrete: eq. 6, 1 for the segments from l to r and 0 elsewhere, where l and r are the first maxima of the
  ///             pointers, which get no gradient. Not in the fused engine.
  enum class Mask { paper, exact, either, discrete };

  bool additive;         ///< on logits (AW) instead of on weights (MW)
  std::int64_t segment;  ///< length of a segment in keys; 1: by token
  Mask mask;
  bool forward_only;     ///< restrict the left pointer to keys j ≤ i, the right one to j ≥ i; m̂ is then x alone
  double pointer_scale;  ///< factor of q · k in the pointers' logits, 1 / sqrt(D) in the paper
  bool pointer_scale_by_length;  ///< multiply the pointers' logits also by the number of keys that the query may see
  double local_scale;            ///< factor of q^loc · k^loc, 1 / sqrt(D) in the paper
};

/// The window as a formula of single pairs, of (weight or logit, position, F^L_j, S^L_j, F^R_j, S^R_j) and, if it is
/// additive, the local logit. Not for Mask::discrete.
PointwiseFormula window_formula(const PointerWindow& window);

/// The pointers φ^L and φ^R, [B, H, I, J].
struct WindowPointers {
  Variable left, right;
};
WindowPointers window_pointers(const PointerWindow& window, const Captured& captured, const AttentionContext& in);

/// m̂ [B, H, I, J]; 0 for keys that a query may not see.
Variable window_mask(const PointerWindow& window, const Captured& captured, const AttentionContext& in);

/// Applies the window to `pairs`, [B, H, I, J] or [D, B, H, I, J]: to weights if it is multiplicative, to logits if it
/// is additive.
Variable apply_window(const PointerWindow& window, const Variable& pairs, const Captured& captured,
                      const AttentionContext& in);

}  // namespace fovea
