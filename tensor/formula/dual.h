/// Dual numbers, for forward-mode differentiation: a value and its derivative, to which a formula applies like to a
/// number.
///
/// f(Dual{x, 1}) has the value f(x) and the derivative f'(x), so the derivative of an element-wise functor is computed
/// by the functor itself. T is a scalar, a SIMD vector or, for second derivatives, another dual number.
///
/// Constants, and inputs that the derivative is not taken along, are marked: their derivative is 0, and products with
/// that 0 are skipped, because 0 · inf would be NaN. Whether a number is marked depends on the formula only, not on the
/// values of its arguments, so after inlining the compiler removes the branches and the skipped operations.
#pragma once
#include "tensor/formula/math.h"

namespace fovea {

template <class T>
struct Dual {
  T value;
  T tangent;                 ///< the derivative
  bool is_constant = false;  ///< whether the derivative is 0 for all values of the arguments

  Dual() = default;
  template <class S, class = std::enable_if_t<std::is_arithmetic_v<S> && !std::is_same_v<S, T>>>
  FOVEA_HD FOVEA_INLINE Dual(S constant) : Dual(T(static_cast<typename ScalarOf<T>::type>(constant))) {}
  FOVEA_HD FOVEA_INLINE Dual(T constant) : Dual(constant, zero(), true) {}
  FOVEA_HD FOVEA_INLINE Dual(T value, T tangent, bool is_constant = false)
      : value(value), tangent(tangent), is_constant(is_constant) {}

  /// Makes an input of a formula. `is_direction` says whether the derivative is taken with respect to this input.
  static FOVEA_HD FOVEA_INLINE Dual input(T value, bool is_direction) {
    return {value, is_direction ? one() : zero(), !is_direction};
  }
  /// Makes the result of y = f(x) by the chain rule, from the value `y` and the derivative `slope` of f at x.
  static FOVEA_HD FOVEA_INLINE Dual image(Dual x, T y, T slope) {
    return {y, x.is_constant ? zero() : x.tangent * slope, x.is_constant};
  }

  friend FOVEA_HD FOVEA_INLINE Dual operator+(Dual a, Dual b) {
    return {a.value + b.value,
            a.is_constant   ? b.tangent
            : b.is_constant ? a.tangent
                            : a.tangent + b.tangent,
            a.is_constant && b.is_constant};
  }
  friend FOVEA_HD FOVEA_INLINE Dual operator-(Dual a, Dual b) {
    return {a.value - b.value,
            b.is_constant   ? a.tangent
            : a.is_constant ? -b.tangent
                            : a.tangent - b.tangent,
            a.is_constant && b.is_constant};
  }
  friend FOVEA_HD FOVEA_INLINE Dual operator*(Dual a, Dual b) {
    const T product = a.value * b.value;
    if (a.is_constant) return {product, b.is_constant ? zero() : a.value * b.tangent, b.is_constant};
    if (b.is_constant) return {product, a.tangent * b.value};
    return {product, a.tangent * b.value + a.value * b.tangent};
  }
  friend FOVEA_HD FOVEA_INLINE Dual operator/(Dual a, Dual b) {
    const T quotient = a.value / b.value;
    if (b.is_constant) return {quotient, a.is_constant ? zero() : a.tangent / b.value, a.is_constant};
    const T slope = quotient * b.tangent;
    return {quotient, (a.is_constant ? -slope : a.tangent - slope) / b.value};
  }
  friend FOVEA_HD FOVEA_INLINE Dual operator-(Dual a) { return {-a.value, -a.tangent, a.is_constant}; }
  friend FOVEA_HD FOVEA_INLINE auto operator<(Dual a, Dual b) { return a.value < b.value; }
  friend FOVEA_HD FOVEA_INLINE auto operator<=(Dual a, Dual b) { return a.value <= b.value; }
  friend FOVEA_HD FOVEA_INLINE auto operator>(Dual a, Dual b) { return a.value > b.value; }
  friend FOVEA_HD FOVEA_INLINE auto operator>=(Dual a, Dual b) { return a.value >= b.value; }
  friend FOVEA_HD FOVEA_INLINE auto operator==(Dual a, Dual b) { return a.value == b.value; }
  friend FOVEA_HD FOVEA_INLINE auto operator!=(Dual a, Dual b) { return a.value != b.value; }

 private:
  static FOVEA_HD FOVEA_INLINE T zero() { return T(typename ScalarOf<T>::type(0)); }
  static FOVEA_HD FOVEA_INLINE T one() { return T(typename ScalarOf<T>::type(1)); }
};

template <class T>
struct ScalarOf<Dual<T>> : ScalarOf<T> {};

template <class C, class T>
FOVEA_HD FOVEA_INLINE Dual<T> select(C condition, Dual<T> yes, Dual<T> no) {
  return {select(condition, yes.value, no.value), select(condition, yes.tangent, no.tangent),
          yes.is_constant && no.is_constant};
}

// Each function below has its textbook derivative, written with functions of T, which may be a dual number itself.
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> exp(Dual<T> x) {
  T y = exp(x.value);
  return Dual<T>::image(x, y, y);
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> log(Dual<T> x) {
  return {log(x.value), x.is_constant ? x.tangent : x.tangent / x.value, x.is_constant};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> log1p(Dual<T> x) {
  return {log1p(x.value), x.is_constant ? x.tangent : x.tangent / (T(1) + x.value), x.is_constant};
}
/// The derivative at 0 is +inf.
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> sqrt(Dual<T> x) {
  T y = sqrt(x.value);
  return {y, x.is_constant ? x.tangent : x.tangent / (T(2) * y), x.is_constant};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> tanh(Dual<T> x) {
  T y = tanh(x.value);
  return Dual<T>::image(x, y, T(1) - y * y);
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> sigmoid(Dual<T> x) {
  T y = sigmoid(x.value);
  return Dual<T>::image(x, y, y * (T(1) - y));
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> softplus(Dual<T> x) {
  // The slope is sigmoid(x) = 1 / (1 + e) or, where x < 0, e / (1 + e), with the exponential that softplus computes.
  // |x| is a select, because the slope of abs at 0 is neither of those that make this one smooth.
  const T one(1), e = exp(select(x.value < T(0), x.value, -x.value));
  return Dual<T>::image(x, softplus(x.value), select(x.value < T(0), e, one) / (one + e));
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> erf(Dual<T> x) {
  const T near = larger_of(smaller_of(x.value, T(40)), T(-40));  // beyond, the slope is 0, and its derivative 0 · inf
  return Dual<T>::image(x, erf(x.value), T(1.1283791670955126) * exp(-(near * near)));  // 2 / sqrt(pi)
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> sin(Dual<T> x) {
  return Dual<T>::image(x, sin(x.value), cos(x.value));
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> cos(Dual<T> x) {
  return Dual<T>::image(x, cos(x.value), -sin(x.value));
}
/// The derivative at 0 is 0, the middle of those on its two sides.
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> abs(Dual<T> x) {
  const T zero(typename ScalarOf<T>::type(0));
  const T tangent = select(x.value == zero, zero, select(x.value < zero, -x.tangent, x.tangent));
  return {abs(x.value), tangent, x.is_constant};
}
/// Where x and y are equal, each has half of the derivative.
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> larger_of(Dual<T> x, Dual<T> y) {
  const T half(typename ScalarOf<T>::type(0.5)), shared = half * (x.tangent + y.tangent);
  const T tangent = select(x.value == y.value, shared, select(x.value < y.value, y.tangent, x.tangent));
  return {larger_of(x.value, y.value), tangent, x.is_constant && y.is_constant};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> smaller_of(Dual<T> x, Dual<T> y) {
  const T half(typename ScalarOf<T>::type(0.5)), shared = half * (x.tangent + y.tangent);
  const T tangent = select(x.value == y.value, shared, select(y.value < x.value, y.tangent, x.tangent));
  return {smaller_of(x.value, y.value), tangent, x.is_constant && y.is_constant};
}

template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> floor(Dual<T> x) {
  return Dual<T>(floor(x.value));
}

/// Returns cotangent · slope, the product of the chain rule in the backward pass: `cotangent` is the gradient with
/// respect to the result of an operation, `slope` the derivative of the operation. Where the cotangent is 0, the
/// product is 0 even if the slope is infinite or NaN.
template <class T>
FOVEA_HD FOVEA_INLINE T gradient_times(T cotangent, T slope) {
  const T zero(typename ScalarOf<T>::type(0));
  return select(cotangent == zero, zero, cotangent * slope);
}
/// Returns cotangent / divisor, and 0 where the cotangent is 0, even if the divisor is 0 or NaN.
template <class T>
FOVEA_HD FOVEA_INLINE T gradient_over(T cotangent, T divisor) {
  const T zero(typename ScalarOf<T>::type(0));
  return select(cotangent == zero, zero, cotangent / divisor);
}
/// gradient_times for dual numbers. The derivative with respect to the cotangent is the slope, also where the cotangent
/// is 0.
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> gradient_times(Dual<T> cotangent, Dual<T> slope) {
  const T value = gradient_times(cotangent.value, slope.value);
  if (cotangent.is_constant)
    return {value, slope.is_constant ? slope.tangent : gradient_times(cotangent.value, slope.tangent),
            slope.is_constant};
  if (slope.is_constant) return {value, cotangent.tangent * slope.value};
  return {value, cotangent.tangent * slope.value + gradient_times(cotangent.value, slope.tangent)};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> gradient_over(Dual<T> cotangent, Dual<T> divisor) {
  const T value = gradient_over(cotangent.value, divisor.value);
  if (divisor.is_constant)
    return {value, cotangent.is_constant ? cotangent.tangent : cotangent.tangent / divisor.value,
            cotangent.is_constant};
  const T slope = gradient_over(gradient_times(value, divisor.tangent), divisor.value);
  return {value, cotangent.is_constant ? -slope : cotangent.tangent / divisor.value - slope};
}

}  // namespace fovea
