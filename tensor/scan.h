/// Prefix and suffix sums.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// Inclusive sums along the last dimension: out_j = Σ_{k ≤ j} x_k, or Σ_{k ≥ j} x_k with `reverse` (the adjoint). The
/// suffix sum is added up from the right, not taken as a difference, which would lose digits. Running sums are f64.
Tensor cumulative_sum(const Tensor& x, bool reverse = false);

}  // namespace fovea
