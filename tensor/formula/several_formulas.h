/// Element-wise formulas that may have several results, used on every device: the cell of the LSTM and its backward
/// pass, and the steps of optimizers.
///
/// To add one, write the struct, add its name to SeveralFormulas, and write the public function that calls map_several
/// (tensor/map.h).
#pragma once
#include <array>
#include <limits>

#include "tensor/formula/dual.h"
#include "tensor/formula/list.h"

namespace fovea::formula {

/// One unit of an LSTM (Hochreiter and Schmidhuber 1997, with forget gates), computed from its gates before activation
/// (input i, forget f, candidate z, output o) and its previous cell state c':
///   c = σ(f) c' + σ(i) tanh(z),  h = σ(o) tanh(c)
/// Results: h, c, and the activations σ(i), σ(f), tanh(z), σ(o), which LstmCellBackward needs.
struct LstmCell {
  static constexpr const char* name = "lstm_cell";
  static constexpr int inputs = 5, results = 6, cost = 64;

  template <class T>
  FOVEA_HD FOVEA_INLINE std::array<T, 6> operator()(T input, T forget, T candidate, T output, T previous) const {
    const T i = sigmoid(input), f = sigmoid(forget), z = tanh(candidate), o = sigmoid(output);
    const T cell = f * previous + i * z;
    return {o * tanh(cell), cell, i, f, z, o};
  }
};

/// The backward pass of LstmCell: from the activations, c', c, and the gradients with respect to h and c, it computes
/// the gradients with respect to the four gates before activation and to c'. They are 0 where those of h and c are.
struct LstmCellBackward {
  static constexpr const char* name = "lstm_cell_backward";
  static constexpr int inputs = 8, results = 5, cost = 64;

  template <class T>
  FOVEA_HD FOVEA_INLINE std::array<T, 5> operator()(T i, T f, T z, T o, T previous, T cell, T g_hidden,
                                                    T g_cell) const {
    const T one(1), squashed = tanh(cell);
    const T d_cell = g_cell + gradient_times(g_hidden, o * (one - squashed * squashed));
    return {gradient_times(d_cell, z * i * (one - i)), gradient_times(d_cell, previous * f * (one - f)),
            gradient_times(d_cell, i * (one - z * z)), gradient_times(g_hidden, squashed * o * (one - o)),
            gradient_times(d_cell, f)};
  }
};

/// Converts a constant to T, the scalar or vector type that the formula computes in.
template <class T>
FOVEA_HD FOVEA_INLINE T constant(double value) {
  return T(static_cast<typename ScalarOf<T>::type>(value));
}

/// Plain gradient descent, for gradient g and parameter p: p ← p − rate · (scale · g + decay · p). Here and in the
/// formulas below, the input `scale`, which is one number for all elements, multiplies the gradient as it is read, so
/// clipping needs no extra pass over the gradients.
struct SgdUpdate {
  static constexpr const char* name = "sgd_step";
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
  static constexpr const char* name = "sgd_step_with_momentum";
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
  static constexpr const char* name = "adam_step";
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
  static constexpr const char* name = "clip_scale";
  static constexpr int inputs = 1, results = 1, cost = 4;
  double max_norm, count;

  template <class T>
  FOVEA_HD FOVEA_INLINE std::array<T, 1> operator()(T norm) const {
    const T most = constant<T>(max_norm), items = constant<T>(count), mean = norm / items;
    const auto is_clipped = (mean > most) & (mean < constant<T>(std::numeric_limits<double>::infinity()));
    return {select(is_clipped, most / mean, T(1)) / items};
  }
};

using SeveralFormulas = FunctorList<LstmCell, LstmCellBackward, SgdUpdate, MomentumUpdate, AdamUpdate, ClipScale>;

}  // namespace fovea::formula
