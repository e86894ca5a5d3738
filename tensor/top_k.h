/// The k largest elements of each row.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

struct TopK {
  Tensor values;  ///< the largest elements of each row, largest first, [..., k], of the type of `x`
  Tensor index;   ///< positions of `values` in their row, i32 [..., k]
};

/// Finds the `k` largest elements of each row of `x` [..., n], f32 or f64, 1 ≤ k ≤ n < 2^31. Equal elements keep their
/// order; NaN counts as −inf.
TopK top_k(const Tensor& x, std::int64_t k);

}  // namespace fovea
