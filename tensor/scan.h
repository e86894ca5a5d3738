/// Prefix and suffix sums along the last dimension.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// Returns inclusive prefix sums along the last dimension, out_j = Σ_{k ≤ j} x_k, or with `reverse` suffix sums,
/// out_j = Σ_{k ≥ j} x_k, which are the backward pass of prefix sums. A suffix sum is added up from the end of the row;
/// the difference of the total and a prefix sum would lose digits. `x` is f32 or f64; the sums are accumulated in f64.
Tensor cumulative_sum(const Tensor& x, bool reverse = false);

}  // namespace fovea
