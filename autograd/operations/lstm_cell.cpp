#include "autograd/operations/lstm_cell.h"

#include "autograd/node.h"
#include "autograd/operations.h"
#include "tensor/map.h"
#include "tensor/operands.h"

namespace fovea {

namespace {

const bool are_listed = list_formulas<0>(formula::LstmFormulas{});

/// Splits gates [B, 4 n] into views of the input, forget, candidate and output gates, each [B, n].
std::array<Tensor, 4> parts(const Tensor& gates) {
  const std::int64_t n = gates.size(1) / 4;
  return {gates.slice(1, 0, n), gates.slice(1, n, 2 * n), gates.slice(1, 2 * n, 3 * n), gates.slice(1, 3 * n, 4 * n)};
}

}  // namespace

LstmCellResult lstm_cell(const Tensor& gates, const Tensor& previous_cell) {
  check("lstm_cell", {{"the cell", previous_cell, "B n"}, {"the gates", gates, "B 4n"}});
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
  check("lstm_cell_backward", {{"the previous cell", previous_cell, "B n"},
                               {"the cell", cell, "B n"},
                               {"the activations", activations, "B 4n"},
                               {"the gradient of the hidden state", g_hidden, "B n"},
                               {"the gradient of the cell", g_cell, "B n"}});
  auto empty = [&](const Shape& shape) { return Tensor::empty(shape, cell.dtype(), cell.device()); };
  LstmCellGradients out{empty(activations.shape()), empty(cell.shape())};
  std::array<Tensor, 4> gate = parts(out.gates), activation = parts(activations);
  map_several(
      formula::LstmCellBackward{}, {&gate[0], &gate[1], &gate[2], &gate[3], &out.previous_cell},
      {&activation[0], &activation[1], &activation[2], &activation[3], &previous_cell, &cell, &g_hidden, &g_cell});
  return out;
}

namespace {

/// lstm_cell() in differentiable operations, for second derivatives.
LstmState lstm_cell_composed(const Variable& gates, const Variable& cell) {
  std::int64_t n = cell.size(1);
  auto part = [&](int k) { return slice(gates, 1, k * n, (k + 1) * n); };
  Variable next = sigmoid(part(1)) * cell + sigmoid(part(0)) * tanh(part(2));
  return {sigmoid(part(3)) * tanh(next), next};
}

}  // namespace

LstmState lstm_cell(const Variable& gates, const Variable& cell) {
  LstmCellResult result = lstm_cell(gates.value_for("lstm_cell"), cell.value_for("lstm_cell"));
  if (!should_record({&gates, &cell})) return {result.hidden, result.cell};
  struct Kept {
    Saved gates, cell;
    SavedTensor next_cell;
    Tensor activations;
  };
  auto fused = [](const Kept& kept, const Gradients& g, const Node& node) {
    const Tensor& next = kept.next_cell.get(node);
    LstmCellGradients gradients = lstm_cell_backward(or_zeros(g[0], next).value(), or_zeros(g[1], next).value(),
                                                     kept.activations, kept.cell.get(node).value(), next);
    return Gradients{gradients.gates, gradients.previous_cell};
  };
  auto composed = [](const Kept& kept, const Gradients& g, const Node& node) {
    const Variable &gates = kept.gates.get(node), &cell = kept.cell.get(node);
    const Tensor& next = kept.next_cell.get(node);
    LstmState again = lstm_cell_composed(gates, cell);
    return partial_gradients(concat({again.hidden, again.cell}, 1), {gates, cell},
                             concat({or_zeros(g[0], next), or_zeros(g[1], next)}, 1));
  };
  Kept kept{Saved(gates), Saved(cell), SavedTensor(result.cell, "result"), result.activations};
  auto node = make_node("lstm_cell", {gates, cell}, fused_rule(std::move(kept), fused, composed));
  Variable hidden = output_of(node, 0, result.hidden);
  return {hidden, output_of(node, 1, result.cell)};
}

}  // namespace fovea
