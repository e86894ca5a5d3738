/// Sums and maxima over some or all dimensions of a tensor.
#pragma once
#include <span>

#include "tensor/formula/reductions.h"
#include "tensor/tensor.h"

namespace fovea {

/// Does what reduce() does with the reduction at `place` of the list Reductions. `name` begins error messages.
Tensor reduce_by(const void* reduction, int place, const char* name, const Tensor& x, std::span<const int> dims,
                 bool keep);

/// Reduces `x` over the dimensions `dims`, which may be negative to count from the end; if `dims` is empty, over all
/// dimensions. The result lacks these dimensions, or has them with size 1 if `keep` is true. Sums are added up in an
/// order that does not depend on the number of threads. The maximum over no elements is −inf. Throws Error for integers
/// in all reductions but sums.
template <class R>
Tensor reduce(R reduction, const Tensor& x, std::span<const int> dims, bool keep = false) {
  return reduce_by(&reduction, place_of<R>(formula::Reductions{}), R::name, x, dims, keep);
}
inline Tensor sum(const Tensor& x, std::initializer_list<int> dims = {}, bool keep = false) {
  return reduce(formula::Sum{}, x, std::span(dims.begin(), dims.size()), keep);
}
inline Tensor maximum_over(const Tensor& x, std::initializer_list<int> dims = {}, bool keep = false) {
  return reduce(formula::MaximumOver{}, x, std::span(dims.begin(), dims.size()), keep);
}

/// Sums `x` over the dimensions in which `shape` was broadcast to the shape of `x`; the result has shape `shape`. This
/// is the backward pass of broadcasting. Throws Error unless `shape` broadcasts to the shape of `x`.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace fovea
