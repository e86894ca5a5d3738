/// Running a row formula (formula/row_formulas.h) on tensors: what the fronts of softmax, layer norm, ... call.
#pragma once
#include <initializer_list>
#include <span>

#include "tensor/formula/row_formulas.h"
#include "tensor/kernels.h"

namespace fovea {

/// The operands of a row formula, in its order. Those that have elements are [..., n] and broadcast to the rows, all
/// dimensions but the last; those that have one value for each row are [...].
struct RowOperands {
  Shape rows;      ///< [...]
  std::int64_t n;  ///< elements of a row
  std::initializer_list<const Tensor*> in, out;
  const Tensor* mask = nullptr;  ///< bool or u8, broadcasts to [..., n]; null or undefined allows everything
  const Tensor* column_sums =
      nullptr;  ///< [column sums, n], of the computation's type; null where the formula has none
};

/// Runs the formula for all rows on the device of the first output, in the type of the first input, f32 or f64.
template <class Formula>
void run_rows(const Formula& formula, const RowOperands& operands) {
  if (operands.rows.elements() == 0 && Formula::column_sums == 0) return;
  constexpr int place = place_of<Formula>(RowFormulas{});
  kernels((*operands.out.begin())->device()).rows[place](&formula, operands);
}

}  // namespace fovea
