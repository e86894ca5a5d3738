/// The steps of SGD and Adam, and the scale that clips gradients, as element-wise formulas for every device.
#pragma once
#include <array>
#include <limits>

#include "tensor/formula/functor.h"

namespace fovea::formula {

/// Converts a constant to T, the scalar or vector type that the formula computes in.
template <class T>
FOVEA_HD FOVEA_INLINE T constant(double value) {
  return T(static_cast<typename ScalarOf<T>::type>(value));
}

/// Plain gradient descent, for gradient g and parameter p: p ← p − rate · (scale · g + decay · p). Here and in the
/// formulas below, the input `scale`, which is one number for all elements, multiplies the gradient as it is read, so
/// clipping needs no extra pass over the gradients.
struct SgdUpdate {
  static constexpr ListedName name = "sgd_step";
  static constexpr int inputs = 3, results = 1, shared_inputs = 1, cost = 4;
  double rate, decay;

  template <class T>
  FOVEA_HD FOVEA_INLINE std::array<T, 1> operator()(T gradient, T p, T scale) const {
    const T g = gradient * scale + constant<T>(decay) * p;
    return {p - constant<T>(rate) * g};
  }
};

/// Gradient descent with momentum: velocity ← momentum · velocity + scale · g + decay · p; p ← p − rate · velocity.
struct MomentumUpdate {
  static constexpr ListedName name = "sgd_step_with_momentum";
  static constexpr int inputs = 4, results = 2, shared_inputs = 1, cost = 4;
  double rate, momentum, decay;

  template <class T>
  FOVEA_HD FOVEA_INLINE std::array<T, 2> operator()(T gradient, T p, T velocity, T scale) const {
    const T g = gradient * scale + constant<T>(decay) * p;
    const T next = g + constant<T>(momentum) * velocity;
    return {p - constant<T>(rate) * next, next};
  }
};

/// Adam (Kingma and Ba 2015), or AdamW if `keep` is not 1 (Loshchilov and Hutter 2019), for parameter p with running
/// averages m and v, where g = scale · gradient + decay · p:
///   m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  p ← keep · p − rate · m / (√v · deviation_scale + ε)
/// `rate` and `deviation_scale` include the bias corrections of m and v.
struct AdamUpdate {
  static constexpr ListedName name = "adam_step";
  static constexpr int inputs = 5, results = 3, shared_inputs = 1, cost = 4;
  double rate, beta1, beta2, epsilon, decay, keep, deviation_scale;

  template <class T>
  FOVEA_HD FOVEA_INLINE std::array<T, 3> operator()(T gradient, T p, T m, T v, T scale) const {
    const T g = gradient * scale + constant<T>(decay) * p;
    const T mean = constant<T>(beta1) * m + constant<T>(1 - beta1) * g;
    const T square = constant<T>(beta2) * v + constant<T>(1 - beta2) * (g * g);
    const T deviation = sqrt(square) * constant<T>(deviation_scale) + constant<T>(epsilon);
    return {constant<T>(keep) * p - constant<T>(rate) * mean / deviation, mean, square};
  }
};

/// The factor for gradients that are sums over `count` items and have this norm: 1 / count, times max_norm / mean where
/// the norm of the mean gradient, mean = norm / count, is larger than `max_norm` and finite.
struct ClipScale {
  static constexpr ListedName name = "clip_scale";
  static constexpr int inputs = 1, results = 1, cost = 4;
  double max_norm, count;

  template <class T>
  FOVEA_HD FOVEA_INLINE std::array<T, 1> operator()(T norm) const {
    const T most = constant<T>(max_norm), items = constant<T>(count), mean = norm / items;
    const auto is_clipped = (mean > most) & (mean < constant<T>(std::numeric_limits<double>::infinity()));
    return {select(is_clipped, most / mean, T(1)) / items};
  }
};

using OptimizerFormulas = FunctorList<SgdUpdate, MomentumUpdate, AdamUpdate, ClipScale>;

}  // namespace fovea::formula
