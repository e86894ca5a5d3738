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

/// Gives back the memory of the numbers that constant() has made.
void release_constants();

}  // namespace fovea
