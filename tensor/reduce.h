/// Sums and maxima over some or all dimensions of a tensor.
#pragma once
#include <span>

#include "tensor/kernels.h"
#include "tensor/tensor.h"

namespace fovea {

/// Does what reduce() does, with the kernels of one reduction. `what` begins error messages.
Tensor reduce_by(const FormulaKernels<ReduceKernel>& reduction, const void* formula, const char* what, const Tensor& x,
                 std::span<const int> dims, bool keep);

/// Reduces `x`, by a reduction of formula/reductions.h, over the dimensions `dims`, which may be negative to count from
/// the end; if `dims` is empty, over all dimensions. The result lacks these dimensions, or has them with size 1 if
/// `keep` is true. Sums are added up in an order that does not depend on the number of threads. The maximum over no
/// elements is −inf. Throws Error for integers in all reductions but sums.
template <class R>
Tensor reduce(R reduction, const Tensor& x, std::span<const int> dims, bool keep = false) {
  return reduce_by(formula_kernels<R>(&Kernels::reductions), &reduction, R::name, x, dims, keep);
}
Tensor sum(const Tensor& x, std::initializer_list<int> dims = {}, bool keep = false);
Tensor maximum_over(const Tensor& x, std::initializer_list<int> dims = {}, bool keep = false);

/// Returns √Σ x² over all elements of all tensors, which are f32 or f64 and on one device, as an f64 scalar [] on that
/// device; the host does not wait for it. The sum is computed in f64, in an order that does not depend on the number of
/// threads. Returns 0, on the CPU, for an empty list.
Tensor global_norm(std::span<const Tensor> tensors);

/// Sums `x` over the dimensions in which `shape` was broadcast to the shape of `x`; the result has shape `shape`. This
/// is the backward pass of broadcasting. Throws Error unless `shape` broadcasts to the shape of `x`.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace fovea
