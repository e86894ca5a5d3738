/// The element-wise part of one LSTM step (Hochreiter and Schmidhuber 1997, with forget gates), after the matrix
/// products that compute the gates: the functions of tensors. Their formulas are in tensor/formula/several_formulas.h,
/// and the differentiable function is declared in autograd/operations.h.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

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
