/// Whether numbers are in a range.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// Whether |x| <= limit for all elements of x, which is f32 or f64. False if one is NaN. Waits for x's device.
bool are_within(const Tensor& x, double limit);

/// Whether all elements of x, which is f32 or f64, are finite. Waits for x's device.
bool are_finite(const Tensor& x);

}  // namespace fovea
