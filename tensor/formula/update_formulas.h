/// One step of an optimizer for one element, for every device: from the gradient and the state to the next state.
///
/// state[0] is the parameter. `scale` multiplies the gradient as it is read: that is how clipping is free. To add one:
/// write the struct, add its name to UpdateFormulas, and write the public function (tensor/optimizer_step.h).
#pragma once
#include <array>
#include <cmath>

#include "tensor/formula/functor_list.h"
#include "tensor/formula/math.h"

namespace fovea::formula {

/// A constant in the type that the formula computes in.
template <class T>
FOVEA_HD FOVEA_INLINE T constant(double value) {
  return T(static_cast<typename ScalarOf<T>::type>(value));
}

/// p ← p − rate · (scale · g + decay · p)
struct SgdUpdate {
  static constexpr const char* name = "sgd_step";
  static constexpr int states = 1;
  double rate, decay, scale;

  template <class T>
  FOVEA_HD FOVEA_INLINE std::array<T, 1> operator()(T gradient, const std::array<T, 1>& state) const {
    const T p = state[0], g = gradient * constant<T>(scale) + constant<T>(decay) * p;
    return {p - constant<T>(rate) * g};
  }
};

/// velocity ← momentum · velocity + scale · g + decay · p; p ← p − rate · velocity
struct MomentumUpdate {
  static constexpr const char* name = "sgd_step_with_momentum";
  static constexpr int states = 2;
  double rate, momentum, decay, scale;

  template <class T>
  FOVEA_HD FOVEA_INLINE std::array<T, 2> operator()(T gradient, const std::array<T, 2>& state) const {
    const T p = state[0], g = gradient * constant<T>(scale) + constant<T>(decay) * p;
    const T velocity = g + constant<T>(momentum) * state[1];
    return {p - constant<T>(rate) * velocity, velocity};
  }
};

/// Adam (Kingma and Ba 2015), AdamW where `keep` is not 1 (Loshchilov and Hutter 2019). State: p, m, v.
///   m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  p ← keep · p − rate · m / (√v · deviation_scale + ε)
/// with the corrections of m and v for their first steps inside `rate` and `deviation_scale`.
struct AdamUpdate {
  static constexpr const char* name = "adam_step";
  static constexpr int states = 3;
  double rate, beta1, beta2, epsilon, decay, keep, deviation_scale, scale;

  template <class T>
  FOVEA_HD FOVEA_INLINE std::array<T, 3> operator()(T gradient, const std::array<T, 3>& state) const {
    const T p = state[0], g = gradient * constant<T>(scale) + constant<T>(decay) * p;
    const T mean = constant<T>(beta1) * state[1] + constant<T>(1 - beta1) * g;
    const T square = constant<T>(beta2) * state[2] + constant<T>(1 - beta2) * (g * g);
    const T deviation = sqrt(square) * constant<T>(deviation_scale) + constant<T>(epsilon);
    return {constant<T>(keep) * p - constant<T>(rate) * mean / deviation, mean, square};
  }
};

using UpdateFormulas = FunctorList<SgdUpdate, MomentumUpdate, AdamUpdate>;
inline constexpr int update_formula_count = count_of(UpdateFormulas{});

}  // namespace fovea::formula
