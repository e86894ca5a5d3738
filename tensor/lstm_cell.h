/// One step of an LSTM (Hochreiter and Schmidhuber 1997, with forget gates) after its matrix products.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

struct LstmCellResult {
  Tensor hidden;       ///< [B, n]: σ(o) tanh(cell)
  Tensor cell;         ///< [B, n]: σ(f) previous + σ(i) tanh(z)
  Tensor activations;  ///< [B, 4 n]: σ(i), σ(f), tanh(z), σ(o), for the backward pass
};

/// gates [B, 4 n] before activation, in the order input i, forget f, candidate z, output o; previous_cell [B, n]. f32
/// or f64.
LstmCellResult lstm_cell(const Tensor& gates, const Tensor& previous_cell);

struct LstmCellGradients {
  Tensor gates;          ///< [B, 4 n]
  Tensor previous_cell;  ///< [B, n]
};

/// The adjoint; g_hidden and g_cell [B, n] are the gradients with respect to the results, `activations` and `cell` the
/// forward pass's.
LstmCellGradients lstm_cell_backward(const Tensor& g_hidden, const Tensor& g_cell, const Tensor& activations,
                                     const Tensor& previous_cell, const Tensor& cell);

}  // namespace fovea
