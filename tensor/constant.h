/// Numbers as tensors of one element, for operations that take tensors only.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// Returns a tensor [1] that holds this number. It is shared: nobody may write to it. On a GPU the first call for a
/// number launches a kernel, and later ones do not.
Tensor constant(double value, DType dtype, Device device);
/// The same, with the type and the device of x, a Tensor or a Variable.
template <class X>
Tensor constant_like(const X& x, double value) {
  return constant(value, x.dtype(), x.device());
}

/// Returns the n numbers start, start + 1, ..., as a tensor [n]. It is shared: nobody may write to it. On a GPU a
/// kernel is launched only if a call needs larger numbers than all calls before, or negative ones.
Tensor shared_arange(std::int64_t n, DType dtype, Device device, std::int64_t start = 0);

/// Gives back the memory of the numbers that constant() and shared_arange() have made.
void release_constants();

}  // namespace fovea
