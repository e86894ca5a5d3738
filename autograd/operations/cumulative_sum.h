/// Prefix and suffix sums along the last dimension: the function of tensors, and its formula. The differentiable
/// function is declared in autograd/operations.h.
#pragma once
#include <array>

#include "tensor/formula/row.h"
#include "tensor/tensor.h"

namespace fovea {

/// Returns inclusive prefix sums along the last dimension, out_j = Σ_{k ≤ j} x_k, or with `reverse` suffix sums,
/// out_j = Σ_{k ≥ j} x_k, which are the backward pass of prefix sums. A suffix sum is added up from the end of the row;
/// the difference of the total and a prefix sum would lose digits. `x` is f32 or f64; the sums are accumulated in f64.
Tensor cumulative_sum(const Tensor& x, bool reverse = false);

namespace formula {

/// Prefix sums Σ_{k ≤ j} x_k, or with `reverse` suffix sums Σ_{k ≥ j} x_k.
struct CumulativeSum : RowFormula {
  static constexpr const char* name = "cumulative_sum";
  static constexpr std::array inputs{RowOperand::elements};
  static constexpr std::array outputs{RowOperand::elements};
  bool reverse;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    row.scan(
        0, [&](auto at) { return row.in(0, at); }, reverse);
  }
};

using CumulativeSumFormulas = FunctorList<CumulativeSum>;

}  // namespace formula
}  // namespace fovea
