/// Layer normalisation (Ba et al. 2016) over the last dimension, alone and after a residual connection: the functions
/// of tensors, and their formulas. The differentiable functions are declared in autograd/operations.h.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tensor/formula/row.h"
#include "tensor/tensor.h"

namespace fovea {

struct LayerNormResult {
  Tensor output;             ///< normalised rows times gain plus bias, [..., n]
  Tensor mean;               ///< mean of each row, f64 [...]
  Tensor inverse_deviation;  ///< 1 / sqrt(variance + epsilon) of each row, f64 [...]; the variance divides by n
};

/// Normalises each row of `x` [..., n]: (x − mean) · inverse_deviation · gain + bias. `x` is f32 or f64 with n ≥ 1;
/// `gain` and `bias` are [n], of the type of `x`. Rows of any finite elements are normalised, also where the squares of
/// the elements are too large or too small for their type. A row of equal elements gives the bias exactly, or NaN if
/// epsilon is 0.
LayerNormResult layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, double epsilon);

struct AddNormResult {
  LayerNormResult norm;
  Tensor sum;  ///< the sum that was normalised, [..., n]
};

/// The sum of a residual connection and its layer norm, in one kernel: normalises residual + dropout(update + number).
/// `update` and `residual` are [..., n], alike; `number` is [...], of their type, one for each row, or undefined: 0.
/// `mask` has one row, which is the default of DropoutMask. The sum has the bits of dropout_add(), and the norm those
/// of layer_norm().
AddNormResult add_norm(const Tensor& update, const Tensor& residual, const Tensor& number, const DropoutMask& mask,
                       const Tensor& gain, const Tensor& bias, double epsilon);

struct LayerNormGradients {
  Tensor x;        ///< gradient with respect to x, [..., n]
  Tensor gain;     ///< gradient with respect to the gain, [n]
  Tensor bias;     ///< gradient with respect to the bias, [n]
  Tensor dropped;  ///< with a mask: dropout of the gradient with respect to x, [..., n]
};

/// The backward pass of layer_norm: returns the gradients with respect to x, gain and bias. `g` [..., n] is the
/// gradient with respect to the output; `mean` and `inverse_deviation` are members of the result of layer_norm. The
/// gradients of gain and bias are summed over the rows in an order that does not depend on the number of threads.
/// `added` [..., n], unless it is undefined, is added to the gradient with respect to x. With a `mask`, which has one
/// row, this is the backward pass of add_norm, and x is the sum.
LayerNormGradients layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gain, const Tensor& mean,
                                       const Tensor& inverse_deviation, const Tensor& added = {},
                                       const DropoutMask* mask = nullptr);

namespace formula {

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
    const auto normal = [&](auto at) { return (row.in(1, at) - mean) * factor; };
    const auto product = [](auto a, auto b) { return a * b; };
    const auto sums = sums_of(row, normal, product);
    // a NaN or an infinity in the gain must not matter where the gradient is 0
    if (!(sums[0] - sums[0] == 0 && sums[1] - sums[1] == 0)) return carefully(row);
    propagate(row, sums, normal, factor, product);
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
    const auto normal = [&](auto at) { return distances.of(row.in(1, at)) * factor; };
    const auto product = [](auto a, auto b) { return gradient_times(a, b); };
    propagate(row, sums_of(row, normal, product), normal, static_cast<T>(row.precise_number(4)), product);
  }

  /// Σ h and Σ h x̂, given the normalised elements and the product of a gradient and a factor.
  template <class Row, class Normal, class Product>
  FOVEA_HD FOVEA_INLINE static auto sums_of(Row& row, const Normal& normal, const Product& product) {
    return row.sums([&](auto at) {
      auto upstream = product(row.in(0, at), row.in(2, at));
      return std::array{upstream, product(upstream, normal(at))};
    });
  }

  /// Writes the gradients, given these sums too.
  template <class Row, class Sums, class Normal, class Product>
  FOVEA_HD FOVEA_INLINE void propagate(Row& row, const Sums& sums, const Normal& normal, typename Row::Number inverse,
                                       const Product& product) const {
    using T = typename Row::Number;
    const double share = 1 / static_cast<double>(row.size());
    auto h = [&](auto at) { return product(row.in(0, at), row.in(2, at)); };
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

using LayerNormFormulas =
    FunctorList<LayerNorm, AddNorm, LayerNormGradient<false, false>, LayerNormGradient<false, true>,
                LayerNormGradient<true, false>, LayerNormGradient<true, true>>;

}  // namespace formula
}  // namespace fovea
