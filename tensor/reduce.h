/// Sums and maxima over dimensions.
#pragma once
#include <span>

#include "tensor/formula/reductions.h"
#include "tensor/tensor.h"

namespace fovea {

/// Reduces `dims` (negative count from the end; empty: all). keep leaves them as size 1. Sums add in an order that does
/// not depend on the number of threads. The maximum of nothing is −inf.
Tensor reduce(Reduction reduction, const Tensor& x, std::span<const int> dims, bool keep = false);
inline Tensor sum(const Tensor& x, std::initializer_list<int> dims = {}, bool keep = false) {
  return reduce(Reduction::sum, x, std::span(dims.begin(), dims.size()), keep);
}
inline Tensor maximum_over(const Tensor& x, std::initializer_list<int> dims = {}, bool keep = false) {
  return reduce(Reduction::maximum_over, x, std::span(dims.begin(), dims.size()), keep);
}

/// The adjoint of broadcasting: sums x down to `shape`.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace fovea
