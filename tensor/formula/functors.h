/// The element-wise functors (Add, Exp, Gelu, ...): one struct for each, used on every device and for derivatives.
///
/// A functor is a struct with a name whose operator() is written for any number type: the CPU calls it with SIMD
/// vectors (Vec<T>), CUDA with scalars, and the backward pass with dual numbers (dual.h). To add one, write the struct
/// and add its name to ElementwiseFunctors below. Then map(Name{}, x) works on tensors and on variables (tensors with
/// gradients), on both devices, and the tests check it.
#pragma once
#include <type_traits>
#include <utility>

#include "tensor/formula/dual.h"
#include "tensor/formula/list.h"
#include "tensor/formula/math.h"

namespace fovea {

struct Add {
  static constexpr const char* name = "add";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto y) const { return x + y; }
};

struct Subtract {
  static constexpr const char* name = "subtract";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto y) const { return x - y; }
};

struct Multiply {
  static constexpr const char* name = "multiply";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto y) const { return x * y; }
};

struct Divide {
  static constexpr const char* name = "divide";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto y) const { return x / y; }
};

/// x · slope, and 0 where x is 0 even if the slope is infinite: the product in the backward pass of an operation, where
/// x is the gradient with respect to its result.
struct GradientTimes {
  static constexpr const char* name = "gradient_times";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto slope) const { return gradient_times(x, slope); }
};

/// x / divisor, and 0 where x is 0 even if the divisor is: the quotient in the backward pass of an operation, where x
/// is the gradient with respect to its result.
struct GradientOver {
  static constexpr const char* name = "gradient_over";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto divisor) const { return gradient_over(x, divisor); }
};

/// slope · x + offset
struct Affine {
  static constexpr const char* name = "affine";
  double slope = 1, offset = 0;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x) const {
    using S = typename ScalarOf<T>::type;
    return x * T(S(slope)) + T(S(offset));
  }
};

struct Exp {
  static constexpr const char* name = "exp";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return exp(x); }
};

struct Log {
  static constexpr const char* name = "log";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return log(x); }
};

/// √x; its derivative at 0 is +inf.
struct Sqrt {
  static constexpr const char* name = "sqrt";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return sqrt(x); }
};

struct Square {
  static constexpr const char* name = "square";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return x * x; }
};

/// |x|; its derivative at 0 is 0.
struct Abs {
  static constexpr const char* name = "abs";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return abs(x); }
};

/// The largest integer that is not larger than x. Its derivative is 0.
struct Floor {
  static constexpr const char* name = "floor";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return floor(x); }
};

struct Sin {
  static constexpr const char* name = "sin";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return sin(x); }
};

struct Cos {
  static constexpr const char* name = "cos";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return cos(x); }
};

struct Tanh {
  static constexpr const char* name = "tanh";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return tanh(x); }
};

struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return sigmoid(x); }
};

/// log(1 + exp(x)); −softplus(−x) is the logarithm of the sigmoid.
struct Softplus {
  static constexpr const char* name = "softplus";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return softplus(x); }
};

struct Erf {
  static constexpr const char* name = "erf";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return erf(x); }
};

/// max(x, 0); its derivative at 0 is 0.
struct Relu {
  static constexpr const char* name = "relu";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x) const {
    return select(x <= T(0), T(0), x);  // NaN stays NaN
  }
};

/// relu(x + bias) in one pass, with relu's derivatives, for the hidden layer of a feed-forward block.
struct BiasRelu {
  static constexpr const char* name = "bias_relu";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x, T bias) const {
    T z = x + bias;
    return select(z <= T(0), T(0), z);
  }
};

/// Returns y, which is x Φ(x) as computed; but 0 for x below −40, where Φ(x) rounds to 0, and x above 40, where it
/// rounds to 1. For an infinite x, y and its derivatives may be 0 · ∞.
template <class T>
FOVEA_HD FOVEA_INLINE T with_exact_tails(T x, T y) {
  return select(x > T(40), x, select(x < T(-40), T(0), y));
}

/// x Φ(x), where Φ is the standard normal distribution function: the exact form with erf, not the tanh approximation.
struct Gelu {
  static constexpr const char* name = "gelu";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x) const {
    return with_exact_tails(x, T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752))));
  }
};

/// The larger of two numbers; NaN if either is. Where they are equal, each has half of the derivative.
struct Maximum {
  static constexpr const char* name = "maximum";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto y) const { return larger_of(x, y); }
};

/// The smaller of two numbers; NaN if either is. Where they are equal, each has half of the derivative.
struct Minimum {
  static constexpr const char* name = "minimum";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto y) const { return smaller_of(x, y); }
};

using ElementwiseFunctors = FunctorList<  //
    Add, Subtract, Multiply, Divide, GradientTimes, GradientOver, Affine, Exp, Log, Sqrt, Square, Abs, Floor, Sin, Cos,
    Tanh, Sigmoid, Softplus, Erf, Relu, BiasRelu, Gelu, Maximum, Minimum>;

/// The functor g · ∂f/∂x_k of (g, x_0, ..., x_{n−1}), which the backward pass of f maps to get the gradient of input k;
/// g is the gradient with respect to the result of f. It is 0 where g is 0. One kernel serves all k: `k` is chosen at
/// run time, among derivatives that are compiled separately for each k.
template <class F>
struct Derivative {
  static constexpr const char* name = F::name;
  F f;
  int k;
  template <class T, class... X>
  FOVEA_HD FOVEA_INLINE T operator()(T g, X... x) const {
    return for_each_input(std::index_sequence_for<X...>{}, g, x...);
  }

 private:
  template <std::size_t... input, class T, class... X>
  FOVEA_HD FOVEA_INLINE T for_each_input(std::index_sequence<input...> inputs, T g, X... x) const {
    if constexpr (sizeof...(X) == 1) return along<0>(inputs, g, x...);
    T gradient = g;
    ((k == int{input} ? void(gradient = along<int{input}>(inputs, g, x...)) : void()), ...);
    return gradient;
  }
  template <int direction, std::size_t... input, class T, class... X>
  FOVEA_HD FOVEA_INLINE T along(std::index_sequence<input...>, T g, X... x) const {
    const Dual<T> y = f(Dual<T>::input(x, int{input} == direction)...);
    return y.is_constant ? y.tangent : gradient_times(g, y.tangent);
  }
};

/// The functor of (h, g, x_0, ..., x_{n−1}) that gives h times the derivative of Derivative<F>{f, i} with respect to
/// its input k. Input 0 of that functor is g, so the result is h · ∂f/∂x_i for k = 0, and h · g · ∂²f/∂x_i ∂x_{k−1}
/// otherwise. It is 0 where h is 0. Second derivatives are rare, so if f has several inputs, there is no separate code
/// for each i and k.
template <class F>
struct SecondDerivative {
  static constexpr const char* name = F::name;
  F f;
  int i, k;
  template <class T, class... X>
  FOVEA_HD FOVEA_INLINE T operator()(T h, T g, X... x) const {
    if (k == 0) return Derivative<F>{f, i}(h, x...);
    return along(std::index_sequence_for<X...>{}, h, g, x...);
  }

 private:
  template <std::size_t... input, class T, class... X>
  FOVEA_HD FOVEA_INLINE T along(std::index_sequence<input...>, T h, T g, X... x) const {
    using D = Dual<T>;
    constexpr bool is_only = sizeof...(X) == 1;
    const Dual<D> y = f(Dual<D>::input(D::input(x, is_only || int{input} == k - 1), is_only || int{input} == i)...);
    const D slope = y.tangent;
    if (y.is_constant || slope.is_constant) return slope.tangent;  // it is 0
    return gradient_times(h, gradient_times(g, slope.tangent));
  }
};

/// Returns the functor that the backward pass of f maps to get the gradient of input k.
template <class F>
Derivative<F> differentiated(const F& f, int k) {
  return {f, k};
}
template <class F>
SecondDerivative<F> differentiated(const Derivative<F>& derivative, int k) {
  return {derivative.f, derivative.k, k};
}

/// How many times a functor has been differentiated: 1 for Derivative, 2 for SecondDerivative, 0 for all others.
template <class F>
inline constexpr int derivative_order = 0;
template <class F>
inline constexpr int derivative_order<Derivative<F>> = 1;
template <class F>
inline constexpr int derivative_order<SecondDerivative<F>> = 2;

/// The functor that a derivative was made from, or F itself if it is no derivative.
template <class F>
struct UnderlyingFunctor {
  using type = F;
};
template <class F>
struct UnderlyingFunctor<Derivative<F>> {
  using type = F;
};
template <class F>
struct UnderlyingFunctor<SecondDerivative<F>> {
  using type = F;
};

}  // namespace fovea
