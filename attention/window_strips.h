/// The differentiable window in strips: both pointers of a few queries over all keys, and their sums along the keys.
#pragma once
#include <memory>

#include "attention/strips.h"

namespace fovea {

/// What of the window the strips compute: window.h has the equations.
struct WindowForm {
  bool additive;  ///< z + local · m̂ on logits, instead of w · m̂ on weights
  std::int64_t segment;
  enum class Mask { paper, exact, either } mask;
  bool forward_only;
  double pointer_scale;  ///< of the pointers' logits
  bool pointer_scale_by_length;
  double local_scale;  ///< of the local logits
};

/// Queries and keys of the pointers, and of the local logits if additive, [B, H, I, D] and [B, H, J, D].
struct WindowProjections {
  Variable left_query, left_key, right_query, right_key;
  Variable local_query = {}, local_key = {};
};

std::unique_ptr<StripTerm> window_strips(const WindowForm& form, const WindowProjections& projections);

}  // namespace fovea
