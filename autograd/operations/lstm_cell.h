/// The element-wise part of one LSTM step (Hochreiter and Schmidhuber 1997, with forget gates), after the matrix
/// products that compute the gates: its formulas, and the functions of tensors. The differentiable function is
/// declared in autograd/operations.h.
#pragma once
#include <array>

#include "tensor/formula/functor.h"
#include "tensor/tensor.h"

namespace fovea {

namespace formula {

/// One unit of an LSTM (Hochreiter and Schmidhuber 1997, with forget gates), computed from its gates before activation
/// (input i, forget f, candidate z, output o) and its previous cell state c':
///   c = σ(f) c' + σ(i) tanh(z),  h = σ(o) tanh(c)
/// Results: h, c, and the activations σ(i), σ(f), tanh(z), σ(o), which LstmCellBackward needs.
struct LstmCell {
  static constexpr ListedName name = "lstm_cell";
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
  static constexpr ListedName name = "lstm_cell_backward";
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

using LstmFormulas = FunctorList<LstmCell, LstmCellBackward>;

}  // namespace formula

struct LstmCellResult {
  Tensor hidden;       ///< hidden state σ(o) tanh(cell), [B, n]
  Tensor cell;         ///< cell state σ(f) previous_cell + σ(i) tanh(z), [B, n]
  Tensor activations;  ///< gates after activation, σ(i), σ(f), tanh(z), σ(o), [B, 4 n]; the backward pass needs them
};

/// Computes the hidden state and the cell state of one step. `gates` [B, 4 n] are the gates before activation, in the
/// order input i, forget f, candidate z, output o; `previous_cell` is the cell state before the step, [B, n]. f32 or
/// f64.
LstmCellResult lstm_cell(const Tensor& gates, const Tensor& previous_cell);

struct LstmCellGradients {
  Tensor gates;          ///< gradient with respect to the gates before activation, [B, 4 n]
  Tensor previous_cell;  ///< gradient with respect to the previous cell state, [B, n]
};

/// The backward pass of lstm_cell: returns the gradients with respect to `gates` and `previous_cell`. `g_hidden` and
/// `g_cell` [B, n] are the gradients with respect to the hidden state and the cell state; `activations` and `cell` are
/// members of the result of lstm_cell.
LstmCellGradients lstm_cell_backward(const Tensor& g_hidden, const Tensor& g_cell, const Tensor& activations,
                                     const Tensor& previous_cell, const Tensor& cell);

}  // namespace fovea
