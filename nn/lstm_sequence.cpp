#include "nn/lstm_sequence.h"

#include <algorithm>

#include "autograd/node.h"
#include "autograd/operations/lstm_cell.h"
#include "nn/lengths.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/gemm.h"
#include "tensor/map.h"

namespace fovea {

RealSteps real_steps(const Tensor& lengths, std::int64_t B, std::int64_t T, Device device) {
  if (!lengths.defined()) return {{}, T};
  require_lengths("Lstm", lengths, B, 0, T);
  std::int64_t unpadded = 0;
  if (lengths.device() == Device::cpu) {
    const std::vector<std::int64_t> length = lengths.to_vector<std::int64_t>();
    unpadded = length.empty() ? T : *std::min_element(length.begin(), length.end());
  }
  if (unpadded == T) return {{}, T};
  return {real_positions(lengths, T, device).transpose(0, 1).unsqueeze(2).contiguous(), unpadded};
}

namespace {

/// Returns the time index of the step that is computed as number `step`, counted from 0.
std::int64_t step_at(std::int64_t step, std::int64_t T, bool backward) { return backward ? T - 1 - step : step; }

}  // namespace

LstmSequence lstm_sequence_composed(const Variable& input_gates, const Variable& hidden_weight,
                                    const LstmState& initial, const RealSteps& real, bool backward) {
  std::int64_t T = input_gates.size(0);
  std::vector<Variable> gates = slices(input_gates, 0), hidden(gates.size());
  LstmState state = initial;
  for (std::int64_t step = 0; step < T; ++step) {
    auto t = static_cast<std::size_t>(step_at(step, T, backward));
    const bool padded = static_cast<std::int64_t>(t) >= real.unpadded;
    const Tensor active = padded ? real.active.select(0, static_cast<std::int64_t>(t)) : Tensor();
    gates[t] = squeeze(gates[t], 0);
    // padding may hold NaN, which second derivatives would multiply by 0
    if (padded) gates[t] = where(active, gates[t], constant_like(input_gates, 0));
    LstmState next = lstm_cell(gates[t] + matmul(state.hidden, hidden_weight), state.cell);
    if (padded) next = {where(active, next.hidden, state.hidden), where(active, next.cell, state.cell)};
    state = next;
    hidden[t] = unsqueeze(state.hidden, 0);
  }
  return {concat(hidden, 0), state};
}

namespace {

/// Intermediate results of the forward pass that the backward pass reads. Vectors are indexed by time.
struct ForwardResults {
  std::vector<LstmCellResult> steps;  ///< results of lstm_cell(), computed as if no sentence were padded
  std::vector<Tensor> cells;          ///< cell before each step, [B, n]
  Tensor states;                      ///< hidden state after each step, [T, B, n]
  Tensor last_cell;
};

ForwardResults run_forward(const Tensor& input_gates, const Tensor& hidden_weight, const Tensor& hidden0,
                           const Tensor& cell0, const RealSteps& real, bool backward) {
  std::int64_t T = input_gates.size(0), B = input_gates.size(1), n = hidden_weight.size(0);
  ForwardResults out{std::vector<LstmCellResult>(static_cast<std::size_t>(T)),
                     std::vector<Tensor>(static_cast<std::size_t>(T)),
                     Tensor::empty({T, B, n}, input_gates.dtype(), input_gates.device()), cell0};
  Tensor hidden = hidden0;
  for (std::int64_t step = 0; step < T; ++step) {
    std::int64_t t = step_at(step, T, backward);
    Tensor gates = input_gates.select(0, t).clone();
    gemm(hidden, hidden_weight, gates, 1, 1);
    LstmCellResult& result = out.steps[static_cast<std::size_t>(t)] = lstm_cell(gates, out.last_cell);
    out.cells[static_cast<std::size_t>(t)] = out.last_cell;
    bool padded = t >= real.unpadded;
    Tensor state = out.states.select(0, t);
    state.copy_from(padded ? where(real.active.select(0, t), result.hidden, hidden) : result.hidden);
    out.last_cell = padded ? where(real.active.select(0, t), result.cell, out.last_cell) : result.cell;
    hidden = state;
  }
  return out;
}

struct SequenceGradients {
  Tensor input_gates, hidden_weight, hidden, cell;
};

/// Returns the gradient of U, the sum over steps of h_beforeᵀ · (gradient of the step's gates). h_before, the hidden
/// state before the step, is `hidden0` at the first step and is taken from `states` at all other steps. Two matrix
/// products, one for the first step and one for the other steps, compute the sum.
Tensor hidden_weight_gradient(const Tensor& states, const Tensor& hidden0, const Tensor& gates, bool backward) {
  std::int64_t T = gates.size(0), n = states.size(2);
  Tensor out = Tensor::empty({n, 4 * n}, gates.dtype(), gates.device());
  gemm(hidden0.transpose(0, 1), gates.select(0, step_at(0, T, backward)), out, 1, 0);
  if (T == 1) return out;
  std::int64_t before = backward ? 1 : 0, after = 1 - before;
  Tensor rows = states.slice(0, before, before + T - 1).reshape({-1, n});
  gemm(rows.transpose(0, 1), gates.slice(0, after, after + T - 1).reshape({-1, 4 * n}), out, 1, 1);
  return out;
}

SequenceGradients run_backward(const ForwardResults& recorded, const Tensor& g_states, Tensor g_cell,
                               const Tensor& hidden_weight, const Tensor& hidden0, const RealSteps& real,
                               bool backward) {
  std::int64_t T = g_states.size(0), B = g_states.size(1), n = g_states.size(2);
  Tensor gates = Tensor::empty({T, B, 4 * n}, g_states.dtype(), g_states.device());
  Tensor zero = constant_like(g_states, 0);
  Tensor g_hidden = Tensor::zeros({B, n}, g_states.dtype(), g_states.device());
  for (std::int64_t step = T - 1; step >= 0; --step) {
    std::int64_t t = step_at(step, T, backward);
    Tensor arriving = map(Add{}, g_states.select(0, t), g_hidden), kept_cell;
    bool padded = t >= real.unpadded;
    g_hidden = Tensor::zeros({B, n}, g_states.dtype(), g_states.device());
    if (padded) {  // sentences at padding pass their gradients to the step before unchanged
      Tensor active = real.active.select(0, t);
      g_hidden = where(active, zero, arriving);
      arriving = where(active, arriving, zero);
      kept_cell = where(active, zero, g_cell);
      g_cell = where(active, g_cell, zero);
    }
    const LstmCellResult& result = recorded.steps[static_cast<std::size_t>(t)];
    LstmCellGradients gradients = lstm_cell_backward(arriving, g_cell, result.activations,
                                                     recorded.cells[static_cast<std::size_t>(t)], result.cell);
    gates.select(0, t).copy_from(gradients.gates);
    gemm(gradients.gates, hidden_weight.transpose(0, 1), g_hidden, 1, 1);
    g_cell = padded ? map(Add{}, gradients.previous_cell, kept_cell) : gradients.previous_cell;
  }
  return {gates, hidden_weight_gradient(recorded.states, hidden0, gates, backward), g_hidden, g_cell};
}

}  // namespace

LstmSequence lstm_sequence(const Variable& input_gates, const Variable& hidden_weight, const LstmState& initial,
                           const RealSteps& real, bool backward) {
  ForwardResults recorded = run_forward(input_gates.value(), hidden_weight.value(), initial.hidden.value(),
                                        initial.cell.value(), real, backward);
  std::vector<Variable> inputs = {input_gates, hidden_weight, initial.hidden, initial.cell};
  std::int64_t T = input_gates.size(0);
  auto last_hidden = [&](const Variable& states) { return select(states, 0, step_at(T - 1, T, backward)); };
  if (!should_record(inputs)) return {recorded.states, {last_hidden(recorded.states), recorded.last_cell}};

  struct Kept {
    std::vector<Saved> inputs;
    /// The caller can change the states and, among the cells, only the last one: the versions of these are checked.
    SavedTensor states, last_cell;
    ForwardResults recorded;
    RealSteps real;
    bool backward;
  };
  auto inputs_of = [](const Kept& kept, const Node& node) {
    std::vector<Variable> x;
    for (const Saved& input : kept.inputs) x.push_back(input.get(node));
    return x;
  };
  auto fused = [inputs_of](const Kept& kept, const Gradients& g, const Node& node) {
    const std::vector<Variable> x = inputs_of(kept, node);
    const Variable g_states = or_zeros(g[0], kept.states.get(node)), g_cell = or_zeros(g[1], kept.last_cell.get(node));
    SequenceGradients out = run_backward(kept.recorded, g_states.value(), g_cell.value(), x[1].value(), x[2].value(),
                                         kept.real, kept.backward);
    return Gradients{out.input_gates, out.hidden_weight, out.hidden, out.cell};
  };
  auto composed = [inputs_of](const Kept& kept, const Gradients& g, const Node& node) {
    const std::vector<Variable> x = inputs_of(kept, node);
    LstmSequence again = lstm_sequence_composed(x[0], x[1], {x[2], x[3]}, kept.real, kept.backward);
    auto both = [](const Variable& states, const Variable& cell) { return concat({states, unsqueeze(cell, 0)}, 0); };
    return partial_gradients(both(again.states, again.last.cell), x,
                             both(or_zeros(g[0], kept.states.get(node)), or_zeros(g[1], kept.last_cell.get(node))));
  };
  Kept kept{std::vector<Saved>(inputs.begin(), inputs.end()),
            SavedTensor(recorded.states, "result"),
            SavedTensor(recorded.last_cell, "last cell"),
            recorded,
            real,
            backward};
  auto node = make_node("lstm_sequence", inputs, fused_rule(std::move(kept), fused, composed));
  Variable states = output_of(node, 0, recorded.states);
  Variable last_cell = output_of(node, 1, recorded.last_cell);
  return {states, {last_hidden(states), last_cell}};
}

}  // namespace fovea
