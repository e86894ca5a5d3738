/// Dual numbers: a value and its derivative along one direction, carried through the same formula.
///
/// f(Dual{x, 1}) has f(x) and f'(x): the derivative of every element-wise functor comes from the functor itself. T is a
/// scalar, a SIMD vector or a dual again (second derivatives).
#pragma once
#include "tensor/cpu/simd.h"
#include "tensor/formula/math.h"

namespace fovea {

template <class T>
struct Dual {
  T value;
  T tangent;

  Dual() = default;
  template <class S, class = std::enable_if_t<std::is_arithmetic_v<S>>>
  FOVEA_HD FOVEA_INLINE Dual(S constant) : value(constant), tangent(typename ScalarOf<T>::type(0)) {}
  FOVEA_HD FOVEA_INLINE Dual(T value, T tangent) : value(value), tangent(tangent) {}

  friend FOVEA_HD FOVEA_INLINE Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.tangent + b.tangent}; }
  friend FOVEA_HD FOVEA_INLINE Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.tangent - b.tangent}; }
  friend FOVEA_HD FOVEA_INLINE Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, a.tangent * b.value + a.value * b.tangent};
  }
  friend FOVEA_HD FOVEA_INLINE Dual operator/(Dual a, Dual b) {
    T quotient = a.value / b.value;
    return {quotient, (a.tangent - quotient * b.tangent) / b.value};
  }
  friend FOVEA_HD FOVEA_INLINE Dual operator-(Dual a) { return {-a.value, -a.tangent}; }
  friend FOVEA_HD FOVEA_INLINE auto operator<(Dual a, Dual b) { return a.value < b.value; }
  friend FOVEA_HD FOVEA_INLINE auto operator<=(Dual a, Dual b) { return a.value <= b.value; }
  friend FOVEA_HD FOVEA_INLINE auto operator>(Dual a, Dual b) { return a.value > b.value; }
  friend FOVEA_HD FOVEA_INLINE auto operator>=(Dual a, Dual b) { return a.value >= b.value; }
  friend FOVEA_HD FOVEA_INLINE auto operator==(Dual a, Dual b) { return a.value == b.value; }
  friend FOVEA_HD FOVEA_INLINE auto operator!=(Dual a, Dual b) { return a.value != b.value; }
};

template <class T>
struct ScalarOf<Dual<T>> : ScalarOf<T> {};

template <class C, class T>
FOVEA_HD FOVEA_INLINE Dual<T> select(C condition, Dual<T> yes, Dual<T> no) {
  return {select(condition, yes.value, no.value), select(condition, yes.tangent, no.tangent)};
}

// Each rule is the textbook derivative, written once, in terms of functions that T itself has.
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> exp(Dual<T> x) {
  T y = exp(x.value);
  return {y, x.tangent * y};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> log(Dual<T> x) {
  return {log(x.value), x.tangent / x.value};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> log1p(Dual<T> x) {
  return {log1p(x.value), x.tangent / (T(1) + x.value)};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> sqrt(Dual<T> x) {
  T y = sqrt(x.value);
  return {y, x.tangent / (T(2) * y)};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> tanh(Dual<T> x) {
  T y = tanh(x.value);
  return {y, x.tangent * (T(1) - y * y)};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> sigmoid(Dual<T> x) {
  T y = sigmoid(x.value);
  return {y, x.tangent * y * (T(1) - y)};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> softplus(Dual<T> x) {
  const T one(1), e = exp(-abs(x.value));  // as softplus itself takes it; of it, sigmoid(x), 0 on abs's side:
  return {softplus(x.value), x.tangent * (select(x.value < T(0), e, one) / (one + e))};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> erf(Dual<T> x) {
  return {erf(x.value), x.tangent * T(1.1283791670955126) * exp(-(x.value * x.value))};  // 2 / sqrt(pi)
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> sin(Dual<T> x) {
  return {sin(x.value), x.tangent * cos(x.value)};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> cos(Dual<T> x) {
  return {cos(x.value), -(x.tangent * sin(x.value))};
}
template <class T>
FOVEA_HD FOVEA_INLINE Dual<T> abs(Dual<T> x) {
  return {abs(x.value), select(x.value < T(0), -x.tangent, x.tangent)};
}

}  // namespace fovea
