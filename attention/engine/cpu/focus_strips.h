/// Flexible attention's recurrence for the fused engine: the weights of each query, and the focus carried to the next
/// one.
#pragma once
#include <memory>
#include <vector>

#include "attention/engine/cpu/strip_recurrence.h"

namespace fovea {

/// Parameters and inputs; flexible.h has the equations.
struct FocusForm {
  double sigma;       ///< in tokens
  double threshold;   ///< tau; inf: no windows
  bool open;          ///< without `previous`, the first query has no penalty
  double first;       ///< focus before the first query, if `previous` is undefined and `open` is false
  bool detach;        ///< no gradient through the focus
  Variable gate;      ///< [B, H, I]
  Variable previous;  ///< focus before the first query [B, H or 1], or undefined
  /// First and last key of each query's window, [I, B, H, 2]; written by the forward pass.
  std::vector<double>* windows;
};

std::unique_ptr<StripRecurrence> focus_strips(const FocusForm& form);

}  // namespace fovea
