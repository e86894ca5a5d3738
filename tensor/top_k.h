/// The largest of each row.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

struct TopK {
  Tensor values;  ///< [..., k] of x's type, largest first
  Tensor index;   ///< i32 [..., k]: where each stands in its row
};

/// The k largest elements of each row of x [..., n], f32 or f64, k ≤ n. Of equal ones the first comes first; a NaN is
/// taken for −inf.
TopK top_k(const Tensor& x, std::int64_t k);

}  // namespace fovea
