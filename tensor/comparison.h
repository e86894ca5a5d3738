/// Choosing between tensors element by element, and the comparisons that make masks.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// condition ? a : b, broadcasting all three. condition bool or u8; a and b of one type, any.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

/// Comparisons of tensors of one type, any, broadcasting → bool. NaN compares false.
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
inline Tensor greater(const Tensor& a, const Tensor& b) { return less(b, a); }
inline Tensor greater_equal(const Tensor& a, const Tensor& b) { return less_equal(b, a); }
Tensor equal(const Tensor& a, const Tensor& b);

/// Logic, element by element, on bool tensors that broadcast to one shape.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& a);

}  // namespace fovea
