/// Cross-entropy of rows of logits and its gradient, with label smoothing and a target value that is ignored: the
/// functions of tensors, and their formulas. The differentiable function is declared in autograd/operations.h.
#pragma once
#include <array>
#include <cstdint>

#include "tensor/formula/row.h"
#include "tensor/tensor.h"

namespace fovea {

struct CrossEntropyResult {
  Tensor loss;  ///< the loss of each row, [N], of the logits' type; 0 where the target is `ignored`
  /// log Σ_v exp(z_v) of each row, [N], for the backward pass. It is f64 because in f32 the rounding error of a large
  /// value would be too large for exp(z_v − log_sum_exp).
  Tensor log_sum_exp;
};

/// Returns (1 − ε) nll + (ε / V) Σ_v −log p_v for each row, where p is the softmax of the row and nll = −log p_target
/// (Szegedy et al. 2016; the sum runs over all classes v, including the target). `logits` is [N, V], f32 or f64;
/// `targets` is [N], i32 or i64, each in 0 ... V − 1 or equal to `ignored`; ε = `label_smoothing` is in [0, 1]. Throws
/// Error naming the first row whose target is out of range and not `ignored`.
CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets, double label_smoothing,
                                 std::int64_t ignored);

/// Returns the gradient with respect to the logits, [N, V]: g_row (p_v − (1 − ε) [v = target] − ε / V), and 0 in rows
/// whose target is `ignored`. `g` [N] is the gradient with respect to the loss, and `log_sum_exp` the member of the
/// result of cross_entropy.
Tensor cross_entropy_backward(const Tensor& g, const Tensor& logits, const Tensor& targets, const Tensor& log_sum_exp,
                              double label_smoothing, std::int64_t ignored);

namespace formula {

/// Cross-entropy with label smoothing ε (Szegedy et al. 2016). Inputs: the logits and the target of the row. Outputs:
/// the loss (1 − ε) nll + (ε / V) Σ_v −log p_v, where p is the softmax of the row and nll = −log p_target, and
/// log Σ_v exp(z_v) of the logits z, in f64. Both outputs are 0 if the target is `ignored`.
struct CrossEntropy : RowFormula {
  static constexpr const char* name = "cross_entropy";
  static constexpr std::array inputs{RowOperand::elements, RowOperand::index};
  static constexpr std::array outputs{RowOperand::number, RowOperand::precise_number};
  double label_smoothing;
  std::int64_t ignored;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    const std::int64_t target = row.index(1);
    if (target == ignored) {
      row.write_number(0, T(0));
      row.write_precise_number(1, 0);
      return;
    }
    auto z = [&](auto at) { return row.in(0, at); };
    const T shift = finite_or_zero(row.maximum(z));
    auto sums = row.sums([&](auto at) { return std::array{exp(z(at) - shift), z(at)}; });
    const double total = sums[0] == 0 ? infinity<double> : static_cast<double>(shift) + log(sums[0]);
    const double nll = total - static_cast<double>(row.element(0, target));
    const double uniform = total - sums[1] / static_cast<double>(row.size());
    // Without smoothing, `uniform` is left out: it may be infinite, and 0 · inf would be NaN.
    const double loss = label_smoothing == 0 ? nll : (1 - label_smoothing) * nll + label_smoothing * uniform;
    row.write_number(0, static_cast<T>(loss));
    row.write_precise_number(1, total);
  }
};

/// The backward pass of CrossEntropy: g (p_v − (1 − ε) [v = target] − ε / V), and 0 if the target is `ignored` or g is
/// 0. Inputs: the logits, and for each row its target, the gradient g with respect to its loss, and its log Σ exp. The
/// latter is subtracted in two parts, because f64 has more digits than f32.
struct CrossEntropyBackward : RowFormula {
  static constexpr const char* name = "cross_entropy_backward";
  static constexpr std::array inputs{RowOperand::elements, RowOperand::index, RowOperand::number,
                                     RowOperand::precise_number};
  static constexpr std::array outputs{RowOperand::elements};
  double label_smoothing;
  std::int64_t ignored;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    const std::int64_t target = row.index(1);
    auto z = [&](auto at) { return row.in(0, at); };
    const T g = row.number(2);
    if (target == ignored || g == T(0)) {
      row.write(0, [&](auto at) { return decltype(z(at))(T(0)); });
      return;
    }
    const double total = row.precise_number(3), share = label_smoothing / static_cast<double>(row.size());
    const T high = static_cast<T>(total), everywhere = static_cast<T>(share);
    const T low = total == infinity<double> ? T(0) : static_cast<T>(total - static_cast<double>(high));
    row.write(0, [&](auto at) { return g * (exp(z(at) - high - low) - everywhere); });
    const double p = exp(static_cast<double>(row.element(0, target)) - total);
    row.write_element(0, target, static_cast<T>(static_cast<double>(g) * (p - share - (1 - label_smoothing))));
  }
};

using CrossEntropyFormulas = FunctorList<CrossEntropy, CrossEntropyBackward>;

}  // namespace formula
}  // namespace fovea
