/// Softmax, sparsemax, log-softmax and log-sum-exp over the last dimension, with masks: the functions of tensors, and
/// their formulas. The differentiable functions are declared in autograd/operations.h.
#pragma once
#include <array>

#include "tensor/formula/row.h"
#include "tensor/tensor.h"

namespace fovea {

/// Returns the weights exp(z_j) / Σ_k exp(z_k) over the last dimension of the logits z, [..., J], f32 or f64. `allow`,
/// bool or u8, is the mask and broadcasts to the logits; an undefined mask allows all elements. An element that is not
/// allowed (even if it is NaN) or is −inf gets weight exactly 0, and a row without allowed elements is all 0. If an
/// allowed element is NaN, all allowed elements of its row get NaN.
Tensor softmax(const Tensor& logits, const Tensor& allow = {});

/// Returns the weights of sparsemax (Martins and Astudillo 2016) over the last dimension: the point of the probability
/// simplex that is nearest to the allowed logits, which often has exact zeros. `allow` is as in softmax(); forbidden
/// elements get 0, and so does a row without allowed elements.
Tensor sparsemax(const Tensor& logits, const Tensor& allow = {});

/// Returns the gradient with respect to the logits, y · (g − Σ_k y_k g_k), where `y` [..., J] is the result of softmax
/// and `g` the gradient with respect to `y`. It is exactly 0 where `y` is 0.
Tensor softmax_backward(const Tensor& y, const Tensor& g);

/// Returns z_j − log Σ_k exp(z_k) over the last dimension of the logits z. If all logits of a row are −inf, the result
/// is −inf too.
Tensor log_softmax(const Tensor& logits);

/// Returns log Σ_k exp(z_k) over the allowed elements of each row of the logits z, [..., J] → [...]. A row without
/// allowed elements gets +inf rather than −inf, because exp(z − log_sum_exp), and gradients computed from it, are then
/// 0 without a branch.
Tensor log_sum_exp(const Tensor& logits, const Tensor& allow = {});

namespace formula {

/// exp(z_j) / Σ_k exp(z_k). Exactly 0 where the mask forbids the element; all 0 in a row without allowed elements.
struct Softmax : RowFormula {
  static constexpr const char* name = "softmax";
  static constexpr std::array inputs{RowOperand::elements};
  static constexpr std::array outputs{RowOperand::elements};
  static constexpr bool takes_mask = true, keeps = true;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    auto z = [&](auto at) { return row.allowed_or(0, at, -infinity<T>); };
    const T shift = finite_or_zero(row.maximum(z));
    auto e = row.keep(0, [&](auto at) { return exp(z(at) - shift); });
    const T total = static_cast<T>(row.sum(e)), scale = total == T(0) ? T(0) : T(1) / total;
    if (total == total) {
      row.write(0, [&](auto at) { return e(at) * scale; });
      return;
    }
    // An element that is allowed is NaN. Products with it would be NaN where the mask forbids the element, too.
    row.write(0, [&](auto at) {
      auto logit = z(at);
      decltype(logit) zero(T(0)), lowest(-infinity<T>), nan(total);
      return select(logit == lowest, zero, nan);
    });
  }
};

/// y_j (g_j − Σ_k y_k g_k), where y is the result of Softmax and g the gradient with respect to y. Exactly 0 where y is
/// 0, even if g is infinite or NaN there, and in rows whose g is 0, even if y is NaN.
struct SoftmaxBackward : RowFormula {
  static constexpr const char* name = "softmax_backward";
  static constexpr std::array inputs{RowOperand::elements, RowOperand::elements};
  static constexpr std::array outputs{RowOperand::elements};
  static constexpr int cost = 2;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    auto weighted = [&](auto at, T mean) {
      auto y = row.in(0, at);
      decltype(y) zero(T(0));
      return select(y == zero, zero, gradient_times(row.in(1, at) - mean, y));
    };
    const T mean = static_cast<T>(row.sum([&](auto at) { return weighted(at, T(0)); }));
    row.write(0, [&](auto at) { return weighted(at, mean); });
  }
};

/// Returns log Σ_k exp(z_k − shift) over the allowed elements of the row; log Σ_k exp(z_k) is `shift` more. +inf if no
/// element is allowed.
template <class Row, class Logits>
FOVEA_HD FOVEA_INLINE auto log_of_sum(Row& row, typename Row::Number shift, const Logits& z) {
  using T = typename Row::Number;
  const T total = static_cast<T>(row.sum([&](auto at) { return exp(z(at) - shift); }));
  return total == T(0) ? infinity<T> : log(total);
}

/// z_j − log Σ_k exp(z_k). If all elements of a row are −inf, the result is −inf too.
struct LogSoftmax : RowFormula {
  static constexpr const char* name = "log_softmax";
  static constexpr std::array inputs{RowOperand::elements};
  static constexpr std::array outputs{RowOperand::elements};

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    auto z = [&](auto at) { return row.in(0, at); };
    const T shift = finite_or_zero(row.maximum(z)), rest = log_of_sum(row, shift, z);
    row.write(0, [&](auto at) { return z(at) - shift - rest; });
  }
};

/// log Σ_k exp(z_k) over the allowed elements of the row. If no element is allowed, it is +inf rather than −inf, so
/// that exp(z − log_sum_exp) is 0 without a branch.
struct LogSumExp : RowFormula {
  static constexpr const char* name = "log_sum_exp";
  static constexpr std::array inputs{RowOperand::elements};
  static constexpr std::array outputs{RowOperand::number};
  static constexpr bool takes_mask = true;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    auto z = [&](auto at) { return row.allowed_or(0, at, -infinity<T>); };
    const T shift = finite_or_zero(row.maximum(z));
    row.write_number(0, shift + log_of_sum(row, shift, z));
  }
};

/// The point of the probability simplex that is nearest to the allowed logits z (Martins and Astudillo 2016):
/// max(z_j − τ, 0), where τ makes the sum 1. Exactly 0 where the mask forbids the element; all 0 in a row without
/// allowed elements. A NaN makes the allowed elements of its row NaN.
///
/// The support is found as Michelot 1986 does: the elements above z_max − 1 contain it. Elements that are not above the
/// threshold of those that are left are dropped, until none is; no element of the support is, because the threshold of
/// a set that contains the support is at most τ.
struct Sparsemax : RowFormula {
  static constexpr const char* name = "sparsemax";
  static constexpr std::array inputs{RowOperand::elements};
  static constexpr std::array outputs{RowOperand::elements};
  static constexpr bool takes_mask = true, keeps = true;
  static constexpr int cost = 16;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    auto z = [&](auto at) { return row.allowed_or(0, at, -infinity<T>); };
    const T shift = finite_or_zero(row.maximum(z));
    auto x = row.keep(0, [&](auto at) { return z(at) - shift; });
    T threshold = T(-1);
    for (double before = infinity<double>;;) {
      auto sums = row.sums([&](auto at) {
        auto value = x(at);
        decltype(value) zero(T(0)), one(T(1));
        const auto is_dropped = value <= decltype(value)(threshold);  // false for NaN, which makes the sums NaN
        return std::array{select(is_dropped, zero, one), select(is_dropped, zero, value)};
      });
      if (!(sums[0] < before)) break;
      before = sums[0];
      threshold = static_cast<T>((sums[1] - 1) / (sums[0] > 0 ? sums[0] : 1));
    }
    row.write(0, [&](auto at) {
      auto value = x(at);
      decltype(value) zero(T(0)), lowest(-infinity<T>), least(threshold);
      return select((value == lowest) | (value <= least), zero, value - least);
    });
  }
};

using SoftmaxFormulas = FunctorList<Softmax, SoftmaxBackward, LogSoftmax, LogSumExp, Sparsemax>;

}  // namespace formula
}  // namespace fovea
