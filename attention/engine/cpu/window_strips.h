/// The differentiable window (window.h has the equations) for the fused engine.
#pragma once
#include <memory>

#include "attention/engine/cpu/strips.h"

namespace fovea {

/// The variant of the window.
struct WindowForm {
  bool additive;         ///< z + local · m̂ on logits; otherwise w · m̂ on weights
  std::int64_t segment;  ///< length of a segment in keys; 1: by token
  enum class Mask { paper, exact, either } mask;
  bool forward_only;             ///< the left pointer stays at or before the query, the right one at or behind it
  double pointer_scale;          ///< factor of the pointers' logits
  bool pointer_scale_by_length;  ///< multiply them also by the number of keys that the query may see
  double local_scale;            ///< factor of the local logits
};

/// Queries and keys of the pointers, and of the local logits if additive, [B, H, I, D] and [B, H, J, D].
struct WindowProjections {
  Variable left_query, left_key, right_query, right_key;
  Variable local_query = {}, local_key = {};
};

/// The window's form on strips.
std::unique_ptr<StripTerm> window_strips(const WindowForm& form, const WindowProjections& projections);

}  // namespace fovea
