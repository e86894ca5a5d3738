/// Whether numbers are in a range.
#pragma once
#include <array>
#include <limits>

#include "tensor/formula/row.h"
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

/// Replaces NaN and large numbers of x [..., n], f32 or f64, by 0. A number is large if |x| > `seen` in a row where
/// `allowed` is true, and if |x| > `hidden` in the other rows. `allowed` is bool and broadcasts to [...]; if it is
/// undefined, all rows are allowed. The host does not wait for a GPU.
RowsWithinRange rows_within_range(const Tensor& x, const Tensor& allowed, double hidden, double seen);

/// start + Σ_j x[b, j] over the keys j that allowed[b, i, j] names, [B, I]: x [B, J] and start [B, I] f32 or f64,
/// `allowed` bool and broadcast to [B, I, J]. NaN among the other elements does not matter.
Tensor sum_of_allowed(const Tensor& x, const Tensor& allowed, const Tensor& start);

namespace formula {

/// Output 0 is x_j, or 0 where x_j is NaN or too large: |x_j| > `seen` in elements that the mask allows, and
/// |x_j| > `hidden` in the others, with `hidden` ≤ `seen`. Output 1, one number for each row, is 0, or NaN if an
/// element that the mask allows was replaced.
struct WithinRange : RowFormula {
  static constexpr const char* name = "within_range";
  static constexpr std::array inputs{RowOperand::elements};
  static constexpr std::array outputs{RowOperand::elements, RowOperand::number};
  static constexpr bool takes_mask = true;
  double hidden, seen;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    const T smaller = static_cast<T>(hidden), larger = static_cast<T>(seen);
    const double replaced = row.sum([&](auto at) {
      auto x = row.allowed_or(0, at, T(0));
      decltype(x) zero(T(0)), one(T(1));
      return select(abs(x) <= decltype(x)(larger), zero, one);
    });
    row.write(0, [&](auto at) {
      auto x = row.in(0, at), allowed = row.allowed_or(0, at, infinity<T>);
      decltype(x) zero(T(0));
      const auto is_small = abs(x) <= decltype(x)(smaller), is_seen = abs(allowed) <= decltype(x)(larger);
      return select(is_small | is_seen, x, zero);
    });
    row.write_number(1, replaced > 0 ? std::numeric_limits<T>::quiet_NaN() : T(0));
  }
};

/// Input 1 plus the sum of the elements that the mask allows; NaN among the others does not matter.
struct AllowedSum : RowFormula {
  static constexpr const char* name = "allowed_sum";
  static constexpr std::array inputs{RowOperand::elements, RowOperand::number};
  static constexpr std::array outputs{RowOperand::number};
  static constexpr bool takes_mask = true;
  static constexpr int cost = 1;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    const double total = row.sum([&](auto at) { return row.allowed_or(0, at, T(0)); });
    row.write_number(0, static_cast<T>(static_cast<double>(row.number(1)) + total));
  }
};

using RangeFormulas = FunctorList<WithinRange, AllowedSum>;

}  // namespace formula
}  // namespace fovea
