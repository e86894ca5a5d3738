/// Element-wise selection (where), comparisons that produce bool masks, and logic on masks.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// condition ? a : b, element by element; the three tensors broadcast to one shape. `condition` is bool or u8; `a` and
/// `b` have one element type, which may be any. Throws Error where types, devices or shapes do not fit.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

/// Compare `a` and `b` element by element and return a bool tensor. The operands broadcast to one shape and have one
/// element type, which may be any. A comparison with NaN is false.
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
inline Tensor greater(const Tensor& a, const Tensor& b) { return less(b, a); }
inline Tensor greater_equal(const Tensor& a, const Tensor& b) { return less_equal(b, a); }
Tensor equal(const Tensor& a, const Tensor& b);

/// Logical operations, element by element, on bool tensors that broadcast to one shape.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& a);

}  // namespace fovea
