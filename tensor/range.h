/// Whether numbers are in a range.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// Whether |x| <= limit for all elements of x, which is f32 or f64. False if one is NaN. Waits for x's device.
bool are_within(const Tensor& x, double limit);

/// Whether all elements of x, which is f32 or f64, are finite. Waits for x's device.
bool are_finite(const Tensor& x);

/// What rows_within_range() returns.
struct RowsWithinRange {
  Tensor kept;   ///< x with 0 in place of numbers out of range, [..., n]
  Tensor marks;  ///< for each row 0, or NaN if it is allowed and a number of it was out of range, [...]
};

/// Replaces the numbers out of range of x [..., n], f32 or f64: NaN and |x| > `seen` in the rows that `allowed` names,
/// bool and broadcast to [...], and NaN and |x| > `hidden` in the others. Undefined: all rows are allowed. Waits for
/// nothing.
RowsWithinRange rows_within_range(const Tensor& x, const Tensor& allowed, double hidden, double seen);

/// start + Σ_j x[b, j] over the keys j that allowed[b, i, j] names, [B, I]: x [B, J] and start [B, I] f32 or f64,
/// `allowed` bool and broadcast to [B, I, J]. NaN among the other elements does not matter.
Tensor sum_of_allowed(const Tensor& x, const Tensor& allowed, const Tensor& start);

}  // namespace fovea
