/// Running a row formula (formula/row_formulas.h) on tensors: what the fronts of softmax, layer norm, ... call.
#pragma once
#include <array>
#include <initializer_list>

#include "tensor/formula/row_formulas.h"
#include "tensor/kernels.h"

namespace fovea {

/// Addresses of up to eight tensors, which the caller keeps alive.
class TensorList {
 public:
  TensorList(std::initializer_list<const Tensor*> tensors) {
    for (const Tensor* x : tensors) add(*x);
  }
  void add(const Tensor& x) { tensors_.at(size_++) = &x; }
  const Tensor& operator[](std::size_t k) const { return *tensors_[k]; }

 private:
  std::array<const Tensor*, 8> tensors_;
  std::size_t size_ = 0;
};

/// The operands of a row formula, in its order. Those that have elements are [..., n] and broadcast to the rows, all
/// dimensions but the last; those that have one value for each row are [...].
struct RowOperands {
  Shape rows;      ///< [...]
  std::int64_t n;  ///< elements of a row
  TensorList in, out;
  const Tensor* mask = nullptr;  ///< bool or u8, broadcasts to [..., n]; null or undefined allows everything
  const Tensor* column_sums =
      nullptr;  ///< [column sums, n], of the computation's type; null where the formula has none
};

/// Runs the formula for all rows on the device of the first output, in the type of the first input, f32 or f64.
template <class Formula>
void run_rows(const Formula& formula, const RowOperands& operands) {
  if (operands.rows.elements() == 0 && Formula::column_sums == 0) return;
  constexpr int place = place_of<Formula>(formula::RowFormulas{});
  kernels(operands.out[0].device()).rows[place](&formula, operands);
}

}  // namespace fovea
