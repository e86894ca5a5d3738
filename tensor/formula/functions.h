/// The functions of an element: Exp, Tanh, Relu, Gelu, ... How a functor is written: functor.h.
#pragma once
#include "tensor/formula/functor.h"

namespace fovea {

struct Exp {
  static constexpr ListedName name = "exp";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return exp(x); }
};

struct Log {
  static constexpr ListedName name = "log";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return log(x); }
};

struct Sin {
  static constexpr ListedName name = "sin";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return sin(x); }
};

struct Cos {
  static constexpr ListedName name = "cos";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return cos(x); }
};

struct Tanh {
  static constexpr ListedName name = "tanh";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return tanh(x); }
};

struct Sigmoid {
  static constexpr ListedName name = "sigmoid";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return sigmoid(x); }
};

/// log(1 + exp(x)); −softplus(−x) is the logarithm of the sigmoid.
struct Softplus {
  static constexpr ListedName name = "softplus";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return softplus(x); }
};

struct Erf {
  static constexpr ListedName name = "erf";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return erf(x); }
};

/// max(x, 0); its derivative at 0 is 0.
struct Relu {
  static constexpr ListedName name = "relu";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x) const {
    return select(x <= T(0), T(0), x);  // NaN stays NaN
  }
};

/// relu(x + bias) in one pass, with relu's derivatives, for the hidden layer of a feed-forward block.
struct BiasRelu {
  static constexpr ListedName name = "bias_relu";
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
  static constexpr ListedName name = "gelu";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x) const {
    return with_exact_tails(x, T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752))));
  }
};

using FunctionFunctors = FunctorList<Exp, Log, Sin, Cos, Tanh, Sigmoid, Softplus, Erf, Relu, BiasRelu, Gelu>;

}  // namespace fovea
