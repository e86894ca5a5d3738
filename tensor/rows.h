/// Runs a row formula (formula/row.h), which computes on the last dimension of tensors. The public functions of
/// softmax, layer normalisation, cross-entropy and prefix sums call run_rows.
#pragma once
#include <array>
#include <initializer_list>

#include "tensor/formula/row.h"
#include "tensor/kernels.h"

namespace fovea {

/// Addresses of up to eight tensors. It does not own the tensors: the caller keeps them alive.
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

/// The operands of a row formula. An operand that has elements is [..., n], and its leading dimensions broadcast to
/// `rows`; an operand that has one value for each row is [...].
struct RowOperands {
  Shape rows;                    ///< shape of the leading dimensions, [...]; their product is the number of rows
  std::int64_t n;                ///< number of elements in a row
  TensorList in, out;            ///< in the order that the formula declares
  const Tensor* mask = nullptr;  ///< bool or u8, broadcasts to [..., n]; null or undefined allows all elements
  /// Sums over all rows, [Formula::column_sums, n], contiguous, of the type that the formula computes in; null if it
  /// has none.
  const Tensor* column_sums = nullptr;
};

/// Runs `formula` on all rows, on the device of the first output. It computes in the type of the first input, which is
/// f32 or f64.
template <class Formula>
void run_rows(const Formula& formula, const RowOperands& operands) {
  if (operands.rows.elements() == 0 && Formula::column_sums == 0) return;
  formula_kernels<Formula>(&Kernels::rows).on(operands.out[0].device())(&formula, operands);
}

/// Returns the output of a formula that has one, with the shape, type and device of the first input.
template <class Formula>
Tensor apply_to_rows(const Formula& formula, const TensorList& in, const Tensor* mask = nullptr) {
  const Tensor& x = in[0];
  Tensor out = Tensor::empty(x.shape(), x.dtype(), x.device());
  run_rows(formula, {leading_shape(x.shape()), x.size(-1), in, {&out}, mask});
  return out;
}

}  // namespace fovea
