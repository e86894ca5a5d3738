#include "tensor/lstm_cell.h"

#include "tensor/map.h"
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

/// Splits gates [B, 4 n] into views of the input, forget, candidate and output gates, each [B, n].
std::array<Tensor, 4> parts(const Tensor& gates) {
  const std::int64_t n = gates.size(1) / 4;
  return {gates.slice(1, 0, n), gates.slice(1, n, 2 * n), gates.slice(1, 2 * n, 3 * n), gates.slice(1, 3 * n, 4 * n)};
}

}  // namespace

LstmCellResult lstm_cell(const Tensor& gates, const Tensor& previous_cell) {
  require_gates(gates, previous_cell);
  auto empty = [&](const Shape& shape) { return Tensor::empty(shape, gates.dtype(), gates.device()); };
  LstmCellResult out{empty(previous_cell.shape()), empty(previous_cell.shape()), empty(gates.shape())};
  std::array<Tensor, 4> gate = parts(gates), activation = parts(out.activations);
  map_several(formula::LstmCell{},
              {&out.hidden, &out.cell, &activation[0], &activation[1], &activation[2], &activation[3]},
              {&gate[0], &gate[1], &gate[2], &gate[3], &previous_cell});
  return out;
}

LstmCellGradients lstm_cell_backward(const Tensor& g_hidden, const Tensor& g_cell, const Tensor& activations,
                                     const Tensor& previous_cell, const Tensor& cell) {
  require_gates(activations, previous_cell);
  for (const Tensor* x : {&g_hidden, &g_cell, &cell}) require_alike("lstm_cell", previous_cell, *x);
  auto empty = [&](const Shape& shape) { return Tensor::empty(shape, cell.dtype(), cell.device()); };
  LstmCellGradients out{empty(activations.shape()), empty(cell.shape())};
  std::array<Tensor, 4> gate = parts(out.gates), activation = parts(activations);
  map_several(
      formula::LstmCellBackward{}, {&gate[0], &gate[1], &gate[2], &gate[3], &out.previous_cell},
      {&activation[0], &activation[1], &activation[2], &activation[3], &previous_cell, &cell, &g_hidden, &g_cell});
  return out;
}

}  // namespace fovea
