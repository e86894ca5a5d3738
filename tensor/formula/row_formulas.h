/// Row formulas: computations on the rows of tensors, where a row is the last dimension, such as softmax and layer
/// normalisation. There is one struct for each, used on every device.
///
/// A formula is a function of a `Row`. Each device has its own Row class, which walks the elements of a row: in SIMD
/// vectors on the CPU, in threads on the GPU. Below, `at` is a position in the row (or, on the CPU, the positions of
/// one vector), and f is a function that returns a value for a position.
///
///   row.in(k, at)                  returns the element of input k at the position
///   row.allowed_or(k, at, x)       returns the element of input k, or x where the mask forbids the element
///   row.maximum(f)                 returns the maximum of f over the row; NaN is skipped, −inf if there are no values
///   row.sum(f)                     returns the sum of f over the row, as f64
///   row.sums(f)                    returns several sums: f returns a std::array of values
///   row.keep(k, f)                 computes f once at every position, and returns a function that gives these values.
///                                  They may be stored in output k, which must be written afterwards
///   row.write(k, f)                sets output k to f(at) at every position, and returns a function that gives these
///                                  values
///   row.dropout_factors(k, mask)   returns a function that gives mask.scale() where the mask, of one row, keeps the
///                                  element and 0 where it drops it; elements are counted in output k, which is
///                                  contiguous. It may store the factors there; write(k) may read them
///   row.write_element(k, j, x)     sets element j of output k to x
///   row.scan(k, f, reverse)        sets output k to the prefix sums of f, each including its own position, or with
///                                  reverse to the suffix sums; added up in f64
///   row.add_to_column(k, f)        adds f(at) to column sum k, [n], which is summed over all rows
///   row.size(), row.element(k, j)  return the number of elements of the row, and element j of input k
///   row.number(k), row.precise_number(k), row.index(k)
///                                  return input k, which has one value for the row; see RowOperand for its type
///   row.write_number(k, x), row.write_precise_number(k, x)
///                                  sets output k, which has one value for the row, to x
///
/// To add one, write the struct here, add its name to RowFormulas at the end, and write the public function that calls
/// run_rows (tensor/rows.h). It then runs on every device, and the tests compare the devices with a plain loop.
///
/// In a backward pass, a row whose gradient is 0 everywhere gives 0 everywhere, whatever its numbers are: products with
/// gradients are gradient_times().
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tensor/formula/dual.h"
#include "tensor/formula/list.h"
#include "tensor/formula/math.h"
#include "tensor/formula/philox.h"

namespace fovea::formula {

/// The kind of an operand. `elements`: n elements in each row, of the type that the formula computes in. The other
/// kinds have one value for each row: `number` of the type that the formula computes in, `precise_number` f64, `index`
/// i64.
enum class RowOperand { elements, number, precise_number, index };

/// Properties of a formula with their defaults; a formula derives from this and redeclares a property to change it.
struct RowFormula {
  static constexpr bool takes_mask = false;  ///< whether the formula calls row.allowed_or
  static constexpr bool keeps = false;       ///< whether it calls row.keep; if so, short rows stay in registers
  static constexpr int column_sums = 0;      ///< number of column sums, [n] each, that it adds to
  static constexpr int cost = 4;             ///< work per element, in additions
};

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

/// Returns the value to subtract from logits before exp: their maximum, or 0 if that is −inf, because −inf − (−inf)
/// would be NaN, while exp(−inf − 0) is 0.
template <class T>
FOVEA_HD FOVEA_INLINE T finite_or_zero(T maximum) {
  return maximum == -infinity<T> ? T(0) : maximum;
}

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

/// g_j − exp(y_j) Σ_k g_k, where y is the result of LogSoftmax and g the gradient with respect to y.
struct LogSoftmaxBackward : RowFormula {
  static constexpr const char* name = "log_softmax_backward";
  static constexpr std::array inputs{RowOperand::elements, RowOperand::elements};
  static constexpr std::array outputs{RowOperand::elements};

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    const T total = static_cast<T>(row.sum([&](auto at) { return row.in(1, at); }));
    row.write(0, [&](auto at) {
      auto y = row.in(0, at);
      return row.in(1, at) - gradient_times(decltype(y)(total), exp(y));
    });
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

/// Returns the largest power of two that is not above x ≥ 0; 0 for 0 and for denormal numbers, and +inf for ±inf and
/// NaN.
FOVEA_HD FOVEA_INLINE double power_of_two_below(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  bits &= 0x7ff0000000000000;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// Returns the power of two by which numbers of size `size` are multiplied to get numbers between 4 and 8, which can be
/// squared and added up. It is bounded, so that its own product with a number of that size is finite.
template <class T>
FOVEA_HD FOVEA_INLINE T scale_for(double size) {
  const double scale = 4 / power_of_two_below(size), most = sizeof(T) == 4 ? 0x1p126 : 0x1p1022;
  return static_cast<T>(scale < most ? scale : most);
}

/// The distances of a row's elements from the mean of the row, multiplied by a power of two: `scale` · (x − mean). The
/// mean is in two parts: the mean of a row of equal elements rounded to T would differ from them, and divided by the
/// deviation √ε the difference would be far from 0.
template <class T>
struct Distances {
  T scale, mean, mean_rest;

  FOVEA_HD FOVEA_INLINE Distances(T scale, double scaled_mean)
      : scale(scale),
        mean(static_cast<T>(scaled_mean)),
        mean_rest(static_cast<T>(scaled_mean - static_cast<double>(mean))) {}
  template <class X>
  FOVEA_HD FOVEA_INLINE X of(X x) const {
    return fma(x, X(scale), X(-mean)) - X(mean_rest);
  }
};

/// Outputs: (x − mean) / √(variance + ε) · gain + bias (Ba et al. 2016), and the mean and 1 / √(variance + ε) of each
/// row, in f64. The variance is computed in a second pass over the row, because E[x²] − E[x]² would lose all digits
/// where the mean is large. In rows whose mean is much larger than the deviation, that pass also computes how far the
/// mean, which is rounded to T in between, is off.
struct LayerNorm : RowFormula {
  static constexpr const char* name = "layer_norm";
  static constexpr std::array inputs{RowOperand::elements, RowOperand::elements, RowOperand::elements};
  static constexpr std::array outputs{RowOperand::elements, RowOperand::precise_number, RowOperand::precise_number};
  double epsilon;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    normalise(row, [&](auto at) { return row.in(0, at); });
  }

 protected:
  /// Writes the outputs for a row with the elements x(at).
  template <class Row, class X>
  FOVEA_HD FOVEA_INLINE void normalise(Row& row, const X& x) const {
    using T = typename Row::Number;
    const double share = 1 / static_cast<double>(row.size());
    const T mean = static_cast<T>(row.sum(x) * share);
    const double variance = share * row.sum([&](auto at) {
      auto distance = x(at) - mean;
      return distance * distance;
    });
    // the mean's rounding error is then a small part of the deviation, and squares neither overflow nor underflow
    const double size = static_cast<double>(mean);
    if (!(variance > size * size / 64 && variance >= least<T>() && variance <= std::numeric_limits<double>::max()))
      return carefully(row, x);
    const double inverse = 1 / sqrt(variance + epsilon);
    const T factor = static_cast<T>(inverse);
    row.write(0, [&](auto at) { return (x(at) - mean) * factor * row.in(1, at) + row.in(2, at); });
    row.write_precise_number(1, size);
    row.write_precise_number(2, inverse);
  }

 private:
  struct Moments {
    double mean, variance;  ///< of scale · x
  };

  /// The result for any row.
  template <class Row, class X>
  FOVEA_HD void carefully(Row& row, const X& x) const {
    using T = typename Row::Number;
    T scale = 1;
    Moments of = moments(row, x, scale);
    if (!(of.variance + epsilon >= least<T>() && of.variance <= std::numeric_limits<double>::max())) {
      // Squares overflowed or underflowed; a NaN or an infinity in the row comes here too, and stays.
      scale = scale_for<T>(static_cast<double>(row.maximum([&](auto at) { return abs(x(at)); })));
      of = moments(row, x, scale);
      if (of.variance == 0) of.mean /= static_cast<double>(scale), scale = 1;  // ε would underflow or overflow instead
    }
    const double size = static_cast<double>(scale), square = of.variance + epsilon * size * size;
    const double inverse = 1 / sqrt(square);
    const Distances<T> distances(scale, of.mean);
    const T factor = static_cast<T>(inverse);
    row.write(0, [&](auto at) { return distances.of(x(at)) * factor * row.in(1, at) + row.in(2, at); });
    row.write_precise_number(1, of.mean / size);
    row.write_precise_number(2, inverse * size);
  }

  /// The least variance + ε that squares without scaling are precise enough for.
  template <class T>
  static FOVEA_HD FOVEA_INLINE double least() {
    return sizeof(T) == 4 ? 0x1p-80 : 0x1p-900;
  }

  template <class Row, class X, class T>
  static FOVEA_HD FOVEA_INLINE Moments moments(Row& row, const X& x, T scale) {
    const double n = static_cast<double>(row.size());
    const T rough = static_cast<T>(row.sum([&](auto at) { return x(at) * scale; }) / n);
    auto sums = row.sums([&](auto at) {
      auto element = x(at);
      using Number = decltype(element);
      auto distance = fma(element, Number(scale), Number(-rough));
      return std::array{distance, distance * distance};
    });
    const double off = sums[0] / n, variance = sums[1] / n - off * off;
    return {static_cast<double>(rough) + off, variance < 0 ? 0 : variance};
  }
};

/// x · factor, where the factor is one of dropout: 0 drops the element, also one that is NaN.
template <class X>
FOVEA_HD FOVEA_INLINE X kept(X x, X factor) {
  const X zero(0);
  return select(factor == zero, zero, x * factor);
}

/// The sum of a residual connection, and its layer norm. Inputs: the update, gain, bias, the residual, and a number for
/// each row that is added to the update. Output 3 is residual + dropout(update + number), the others are those of
/// LayerNorm for that sum.
struct AddNorm : LayerNorm {
  static constexpr const char* name = "add_norm";
  static constexpr std::array inputs{RowOperand::elements, RowOperand::elements, RowOperand::elements,
                                     RowOperand::elements, RowOperand::number};
  static constexpr std::array outputs{RowOperand::elements, RowOperand::precise_number, RowOperand::precise_number,
                                      RowOperand::elements};
  static constexpr int cost = 8;
  DropoutMask mask;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    const auto number = row.number(4);
    const auto factor = row.dropout_factors(3, mask);
    normalise(row, row.write(3, [&](auto at) {
      const auto update = row.in(0, at) + number;
      return row.in(3, at) + kept(update, factor(at));
    }));
  }
};

/// The member `mask` of formulas that drop elements.
template <bool drops>
struct MaskIf {
  DropoutMask mask;
};
template <>
struct MaskIf<false> {};

/// The backward pass of LayerNorm. Inputs: the gradient g with respect to its first output, x, gain, and the mean and
/// the inverse = 1 / √(variance + ε) of the row. With x̂ = (x − mean) · inverse and h = g · gain, the gradient with
/// respect to x is inverse · (h − mean(h) − x̂ · mean(h x̂)). The column sums are the gradients with respect to gain,
/// Σ g x̂ over all rows, and bias, Σ g. With `adds`, input 5 is added to the gradient with respect to x. With `drops`,
/// output 1 is dropout of that gradient: the backward pass of AddNorm.
template <bool adds, bool drops>
struct LayerNormGradient : RowFormula, MaskIf<drops> {
  static constexpr const char* name = adds    ? drops ? "layer_norm_backward_add_drop" : "layer_norm_backward_add"
                                      : drops ? "layer_norm_backward_drop"
                                              : "layer_norm_backward";
  static constexpr auto inputs = [] {
    std::array<RowOperand, adds ? 6 : 5> all{};  // tensors with elements, but for the mean and the inverse of each row
    all[3] = all[4] = RowOperand::precise_number;
    return all;
  }();
  static constexpr std::array<RowOperand, drops ? 2 : 1> outputs{};
  static constexpr int column_sums = 2, cost = 8;

  template <class Row>
  FOVEA_HD FOVEA_INLINE void operator()(Row& row) const {
    using T = typename Row::Number;
    const double inverse = row.precise_number(4), widest = sizeof(T) == 4 ? 0x1p60 : 0x1p500;
    const T mean = static_cast<T>(row.precise_number(3)), factor = static_cast<T>(inverse);
    const bool is_usual = inverse > 1 / widest && inverse < widest;  // then all numbers of the row are finite
    if (!is_usual || static_cast<double>(mean) != row.precise_number(3)) return carefully(row);
    propagate(
        row, [&](auto at) { return (row.in(1, at) - mean) * factor; }, factor, [](auto a, auto b) { return a * b; });
  }

 private:
  /// The gradients for any row.
  template <class Row>
  FOVEA_HD void carefully(Row& row) const {
    using T = typename Row::Number;
    // The distances are scaled where those of f32 or f64 may overflow, or the inverse may.
    const double deviation = 1 / row.precise_number(4), widest = sizeof(T) == 4 ? 0x1p60 : 0x1p500;
    const T scale = deviation > 1 / widest && deviation < widest ? T(1) : scale_for<T>(deviation);
    const Distances<T> distances(scale, row.precise_number(3) * static_cast<double>(scale));
    const T factor = static_cast<T>(row.precise_number(4) / static_cast<double>(scale));
    propagate(
        row, [&](auto at) { return distances.of(row.in(1, at)) * factor; }, static_cast<T>(row.precise_number(4)),
        [](auto a, auto b) { return gradient_times(a, b); });
  }

  /// Writes the gradients, given the normalised elements and the product of a gradient and a factor.
  template <class Row, class Normal, class Product>
  FOVEA_HD FOVEA_INLINE void propagate(Row& row, const Normal& normal, typename Row::Number inverse,
                                       const Product& product) const {
    using T = typename Row::Number;
    const double share = 1 / static_cast<double>(row.size());
    auto h = [&](auto at) { return product(row.in(0, at), row.in(2, at)); };
    auto sums = row.sums([&](auto at) {
      auto upstream = h(at);
      return std::array{upstream, product(upstream, normal(at))};
    });
    const T mean_h = static_cast<T>(sums[0] * share), mean_product = static_cast<T>(sums[1] * share);
    const auto of_x = row.write(0, [&](auto at) {
      auto upstream = h(at);
      using Number = decltype(upstream);
      const Number along = product(Number(mean_product), normal(at));
      const Number gradient = product(Number(upstream - mean_h - along), Number(inverse));
      if constexpr (adds)
        return Number(gradient + row.in(5, at));
      else
        return gradient;
    });
    if constexpr (drops) {
      const auto factor = row.dropout_factors(1, this->mask);
      row.write(1, [&](auto at) { return kept(of_x(at), factor(at)); });
    }
    row.add_to_column(0, [&](auto at) { return product(row.in(0, at), normal(at)); });
    row.add_to_column(1, [&](auto at) { return row.in(0, at); });
  }
};

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

/// Prefix sums Σ_{k ≤ j} x_k, or with `reverse` suffix sums Σ_{k ≥ j} x_k.
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

/// Outputs: x_j, or 0 where |x_j| is larger than `hidden` or, in elements that the mask allows, than `seen` ≥ `hidden`,
/// or is NaN; and for each row 0, or NaN if an element that the mask allows became 0.
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

using RowFormulas = FunctorList<Softmax, SoftmaxBackward, LogSoftmax, LogSoftmaxBackward, LogSumExp, LayerNorm, AddNorm,
                                LayerNormGradient<false, false>, LayerNormGradient<false, true>,
                                LayerNormGradient<true, false>, LayerNormGradient<true, true>, CrossEntropy,
                                CrossEntropyBackward, Sparsemax, CumulativeSum, WithinRange, AllowedSum>;

}  // namespace fovea::formula
