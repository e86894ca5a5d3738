#include "tensor/lstm_cell.h"

#include "tensor/kernels.h"
#include "tensor/requirements.h"

namespace fovea {

namespace {

void require_gates(const Tensor& gates, const Tensor& cell) {
  require_rows("lstm_cell", gates);
  require_real("lstm_cell", gates);
  require(gates.rank() == 2 && cell.defined() && cell.rank() == 2 && cell.size(0) == gates.size(0) &&
              4 * cell.size(1) == gates.size(1) && cell.dtype() == gates.dtype() && cell.device() == gates.device(),
          "lstm_cell: the gates are {}, the cell {}; they must be [B, 4 n] and [B, n] of one type", gates, cell);
}

}  // namespace

LstmCellResult lstm_cell(const Tensor& gates, const Tensor& previous_cell) {
  require_gates(gates, previous_cell);
  auto empty = [&](const Shape& shape) { return Tensor::empty(shape, gates.dtype(), gates.device()); };
  LstmCellResult out{empty(previous_cell.shape()), empty(previous_cell.shape()), empty(gates.shape())};
  kernels(gates.device()).lstm_cell(gates, previous_cell, out);
  return out;
}

LstmCellGradients lstm_cell_backward(const Tensor& g_hidden, const Tensor& g_cell, const Tensor& activations,
                                     const Tensor& previous_cell, const Tensor& cell) {
  require_gates(activations, previous_cell);
  for (const Tensor* x : {&g_hidden, &g_cell, &cell}) require_alike("lstm_cell", previous_cell, *x);
  auto empty = [&](const Shape& shape) { return Tensor::empty(shape, cell.dtype(), cell.device()); };
  LstmCellGradients out{empty(activations.shape()), empty(cell.shape())};
  kernels(cell.device()).lstm_cell_backward(g_hidden, g_cell, activations, previous_cell, cell, out);
  return out;
}

}  // namespace fovea
