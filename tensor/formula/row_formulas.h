/// Formulas over rows, the last dimension of tensors: one struct each, for every device.
///
/// A formula is written over a `Row`, which knows how the device walks the elements of a row: in vectors on the CPU, in
/// threads on the GPU. `at` is a place in the row, and f a function of a place that gives an element's value there.
///
///   row.in(k, at)                  input k at that place; row.allowed_or(k, at, x): x where the mask forbids it
///   row.maximum(f), row.sum(f)     over the row: maximum is −inf for nothing and passes over NaN; sums are f64
///   row.sums(f)                    of a std::array of values each
///   row.keep(k, f)                 computes f once at every place; what it returns gives the values again. Output k
///                                  serves as memory, and must be written afterwards
///   row.write(k, f)                output k gets f(at) everywhere; row.write_element(k, j, x): x at place j
///   row.scan(k, f, reverse)        output k gets the sum, in f64, of f over the place and all before it, or after it
///   row.add_to_column(k, f)        column sum k, over all rows, gets f(at) at every place
///   row.size(), row.element(k, j)  the number of elements, and element j of input k
///   row.number(k), row.precise_number(k), row.index(k)     input k, which has one value for the row
///   row.write_number(k, x), row.write_precise_number(k, x)
///
/// To add one: write the struct here, add its name to RowFormulas at the end, and write the public function that calls
/// run_rows (tensor/rows.h). It then runs on every device, and the tests compare the devices with a plain loop.
#pragma once
#include <array>
#include <cstdint>
#include <limits>

#include "tensor/formula/list.h"
#include "tensor/formula/math.h"

namespace fovea::formula {

/// The kind of an operand: n elements in each row, of the computation's type; or one value for each row, of that type,
/// f64 or i64.
enum class RowOperand { elements, number, precise_number, index };

/// The defaults of a formula's declarations; a formula that differs declares its own.
struct RowFormula {
  static constexpr bool takes_mask = false;  ///< calls allowed_or
  static constexpr bool keeps = false;       ///< calls keep: short rows stay in registers
  static constexpr int column_sums = 0;      ///< how many rows of column sums, [n] each, it adds to
  static constexpr int cost = 4;             ///< of an element, in additions
};

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

/// The shift that is subtracted from logits before exp: their maximum, or 0 where that is −inf, because −inf − (−inf)
/// would be NaN, and exp(−inf − 0) is 0.
template <class T>
FOVEA_HD FOVEA_INLINE T finite_or_zero(T maximum) {
  return maximum == -infinity<T> ? T(0) : maximum;
}

/// weights_j = exp(z_j) / Σ_k exp(z_k). Exactly 0 where the mask forbids; all 0 in a row with nothing allowed.
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
    row.write(0, [&](auto at) { return e(at) * scale; });
  }
};

/// y_j (g_j − Σ_k y_k g_k), y the softmax. Exactly 0 where y is, whatever g holds there.
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
      return select(y == zero, zero, y * (row.in(1, at) - mean));
    };
    const T mean = static_cast<T>(row.sum([&](auto at) { return weighted(at, T(0)); }));
    row.write(0, [&](auto at) { return weighted(at, mean); });
  }
};

/// log Σ_k exp(z_k) over what is allowed, as the row's maximum and the logarithm of the rest; +inf where nothing is.
template <class Row, class Logits>
FOVEA_HD FOVEA_INLINE auto log_of_sum(Row& row, typename Row::Number shift, const Logits& z) {
  using T = typename Row::Number;
  const T total = static_cast<T>(row.sum([&](auto at) { return exp(z(at) - shift); }));
  return total == T(0) ? infinity<T> : log(total);
}

/// z_j − log Σ_k exp(z_k). A row of −inf stays −inf.
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

/// g_j − exp(y_j) Σ_k g_k, y the logarithm of the softmax.
struct LogSoftmaxBackward : RowFormula {
  static constexpr const char* name = "log_softmax_backward";
  static constexpr std::array inputs{RowOperand::elements, RowOperand::elements};
  static constexpr std::array outputs{RowOperand::elements};

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    const T total = static_cast<T>(row.sum([&](auto at) { return row.in(1, at); }));
    row.write(0, [&](auto at) { return row.in(1, at) - exp(row.in(0, at)) * total; });
  }
};

/// log Σ_k exp(z_k) over what is allowed; +inf, not −inf, where nothing is: exp(z − lse) is then 0 without a branch.
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

/// (x − mean) / √(variance + ε) · gain + bias (Ba et al. 2016), and the mean and 1 / √(variance + ε) of each row. In
/// two sweeps: the difference E[x²] − E[x]² would lose all digits where the mean is large.
struct LayerNorm : RowFormula {
  static constexpr const char* name = "layer_norm";
  static constexpr std::array inputs{RowOperand::elements, RowOperand::elements, RowOperand::elements};
  static constexpr std::array outputs{RowOperand::elements, RowOperand::number, RowOperand::number};
  double epsilon;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    const T n = static_cast<T>(row.size());
    const T mean = static_cast<T>(row.sum([&](auto at) { return row.in(0, at); })) / n;
    const T variance = static_cast<T>(row.sum([&](auto at) {
                         auto distance = row.in(0, at) - mean;
                         return distance * distance;
                       })) /
                       n;
    const T inverse = T(1) / sqrt(variance + static_cast<T>(epsilon));
    row.write(0, [&](auto at) { return (row.in(0, at) - mean) * inverse * row.in(1, at) + row.in(2, at); });
    row.write_number(1, mean);
    row.write_number(2, inverse);
  }
};

/// The adjoint of LayerNorm. Inputs: g, x, gain, and the row's mean and inverse deviation. With x̂ the normalised row
/// and h = g · gain: dx = inverse · (h − mean(h) − x̂ · mean(h x̂)); column sums g x̂ (of gain) and g (of bias).
struct LayerNormBackward : RowFormula {
  static constexpr const char* name = "layer_norm_backward";
  static constexpr std::array inputs{RowOperand::elements, RowOperand::elements, RowOperand::elements,
                                     RowOperand::number, RowOperand::number};
  static constexpr std::array outputs{RowOperand::elements};
  static constexpr int column_sums = 2, cost = 8;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    const T n = static_cast<T>(row.size()), mean = row.number(3), inverse = row.number(4);
    auto normal = [&](auto at) { return (row.in(1, at) - mean) * inverse; };
    auto h = [&](auto at) { return row.in(0, at) * row.in(2, at); };
    auto sums = row.sums([&](auto at) {
      auto upstream = h(at);
      return std::array{upstream, upstream * normal(at)};
    });
    const T mean_h = static_cast<T>(sums[0]) / n, mean_product = static_cast<T>(sums[1]) / n;
    row.write(0, [&](auto at) { return inverse * (h(at) - mean_h - normal(at) * mean_product); });
    row.add_to_column(0, [&](auto at) { return row.in(0, at) * normal(at); });
    row.add_to_column(1, [&](auto at) { return row.in(0, at); });
  }
};

/// (1 − ε) nll + (ε / V) Σ_v −log p_v, nll = −log p_target, p the softmax of the row (Szegedy et al. 2016); and the
/// row's log Σ exp, in f64. Both are 0 where the target is the ignored one.
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
    // without smoothing, an infinite logit elsewhere must not turn 0 · inf into NaN
    const double loss = label_smoothing == 0 ? nll : (1 - label_smoothing) * nll + label_smoothing * uniform;
    row.write_number(0, static_cast<T>(loss));
    row.write_precise_number(1, total);
  }
};

/// g (p_v − (1 − ε) [v = target] − ε / V), and 0 in ignored rows. Inputs: the logits, the row's target, its gradient
/// and its log Σ exp, which is subtracted in two pieces, as it has more digits than f32.
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
    if (target == ignored) return row.write(0, [&](auto at) { return decltype(z(at))(T(0)); });
    const double total = row.precise_number(3), share = label_smoothing / static_cast<double>(row.size());
    const T g = row.number(2), high = static_cast<T>(total), everywhere = static_cast<T>(share);
    const T low = total == infinity<double> ? T(0) : static_cast<T>(total - static_cast<double>(high));
    row.write(0, [&](auto at) { return g * (exp(z(at) - high - low) - everywhere); });
    const double p = exp(static_cast<double>(row.element(0, target)) - total);
    row.write_element(0, target, static_cast<T>(static_cast<double>(g) * (p - share - (1 - label_smoothing))));
  }
};

/// y_j = Σ_{k ≤ j} x_k, or with `reverse` Σ_{k ≥ j} x_k.
struct CumulativeSum : RowFormula {
  static constexpr const char* name = "cumulative_sum";
  static constexpr std::array inputs{RowOperand::elements};
  static constexpr std::array outputs{RowOperand::elements};
  bool reverse;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    row.scan(
        0, [&](auto at) { return row.in(0, at); }, reverse);
  }
};

using RowFormulas = FunctorList<Softmax, SoftmaxBackward, LogSoftmax, LogSoftmaxBackward, LogSumExp, LayerNorm,
                                LayerNormBackward, CrossEntropy, CrossEntropyBackward, CumulativeSum>;

}  // namespace fovea::formula
