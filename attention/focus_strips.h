/// The focus of flexible attention in strips: each query's weights, and where they leave the focus for the next.
#pragma once
#include <memory>
#include <vector>

#include "attention/strip_recurrence.h"

namespace fovea {

/// flexible.h has the equations.
struct FocusForm {
  double sigma;
  double threshold;              ///< of the windows; inf: none
  bool open;                     ///< no penalty before there is a focus
  double first;                  ///< the focus before the first query, where `previous` is not given and it is not open
  bool detach;                   ///< no gradient through the focus
  Variable gate;                 ///< [B, H, I]
  Variable previous;             ///< the focus before the first query [B, H or 1], or undefined
  std::vector<double>* windows;  ///< first and last key of [I, B, H], which the forward pass writes
};

std::unique_ptr<StripRecurrence> focus_strips(const FocusForm& form);

}  // namespace fovea
