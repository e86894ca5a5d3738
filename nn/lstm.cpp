#include "nn/lstm.h"

#include <algorithm>
#include <cmath>

namespace fovea {

namespace {

Initializer gate_uniform(std::int64_t in, std::int64_t out) {
  return Initializer::uniform(std::sqrt(6.0 / static_cast<double>(in + out)));
}

}  // namespace

LstmCell::LstmCell(std::int64_t input_dim, std::int64_t dim)
    : dim_(dim),
      input_weight_(parameter("input_weight", {input_dim, 4 * dim}, gate_uniform(input_dim, dim))),
      hidden_weight_(parameter("hidden_weight", {dim, 4 * dim}, gate_uniform(dim, dim))),
      bias_(parameter("bias", {4 * dim}, Initializer::zeros().with_range(dim, 2 * dim, 1))) {}

Variable LstmCell::input_gates(const Variable& x) const {
  Scope scope = enter();
  return linear(x, input_weight_, bias_);
}

LstmState LstmCell::step(const Variable& input_gates, const LstmState& state) const {
  Scope scope = enter();
  return lstm_cell(input_gates + matmul(state.hidden, hidden_weight_), state.cell);
}

LstmState LstmCell::forward(const Variable& x, const LstmState& state) const { return step(input_gates(x), state); }

LstmState LstmCell::zero_state(std::int64_t batch) const {
  Tensor zero = Tensor::zeros({batch, dim_}, bias_.dtype(), bias_.device());
  return {zero, zero};
}

namespace {

/// x [T, ...] as its T slices. One node for all of them: the gradient is put together once.
std::vector<Variable> unbind(const Variable& x) {
  std::vector<Variable> out;
  auto piece = [&](std::int64_t t) { return x.value().select(0, t); };
  if (!should_record({&x})) {
    for (std::int64_t t = 0; t < x.size(0); ++t) out.emplace_back(piece(t));
    return out;
  }
  auto node = make_node("unbind", {x}, [](const Gradients& g, const Node& node) {
    std::vector<Variable> pieces;
    for (std::size_t t = 0; t < g.size(); ++t) {
      Variable gradient = g[t].defined() ? g[t] : Tensor::zeros(node.output_shapes()[t], node.dtype());
      pieces.push_back(unsqueeze(gradient, 0));
    }
    return Gradients{concat(pieces, 0)};
  });
  for (std::int64_t t = 0; t < x.size(0); ++t) out.push_back(output_of(node, static_cast<int>(t), piece(t)));
  return out;
}

/// Which positions are real, true or false [T, B, 1], and how many steps all sentences share.
struct Activity {
  Tensor active;
  std::int64_t shared_steps;
};

Activity activity(const Tensor& lengths, std::int64_t B, std::int64_t T, Device device) {
  if (!lengths.defined()) return {{}, T};
  require(lengths.rank() == 1 && lengths.size(0) == B, "Lstm: the lengths are {}; there must be one for each of {}",
          lengths.describe(), B);
  std::vector<std::int64_t> length = lengths.to_vector<std::int64_t>();
  std::int64_t shortest = T;
  Tensor active = Tensor::empty({T, B, 1}, DType::boolean);
  for (std::int64_t b = 0; b < B; ++b) {
    std::int64_t n = length[static_cast<std::size_t>(b)];
    require(0 <= n && n <= T, "Lstm: sentence {} has length {} in a batch of {} steps", b, n, T);
    shortest = std::min(shortest, n);
    for (std::int64_t t = 0; t < T; ++t) active.data<bool>()[t * B + b] = t < n;
  }
  return {active.to(device), shortest};
}

struct DirectionOutput {
  Variable states;  // [T, B, n]
  LstmState last;
};

/// One direction of one layer; x [T, B, in]. A backward pass begins in the padding, where the state just stays.
DirectionOutput run(const LstmCell& cell, const Variable& x, const Activity& real, LstmState state, bool backward) {
  std::vector<Variable> gates = unbind(cell.input_gates(x)), hidden(gates.size());
  std::int64_t T = x.size(0);
  for (std::int64_t step = 0; step < T; ++step) {
    std::int64_t t = backward ? T - 1 - step : step;
    LstmState next = cell.step(gates[static_cast<std::size_t>(t)], state);
    if (t >= real.shared_steps) {
      Tensor active = real.active.select(0, t);
      next = {where(active, next.hidden, state.hidden), where(active, next.cell, state.cell)};
    }
    state = next;
    hidden[static_cast<std::size_t>(t)] = unsqueeze(state.hidden, 0);
  }
  Variable states = concat(hidden, 0);
  if (real.shared_steps < T) states = where(real.active, states, Tensor::zeros({1}, states.dtype(), states.device()));
  return {states, state};
}

}  // namespace

Lstm::Lstm(const LstmOptions& options) : options_(options), dropout_(options.dropout) {
  std::int64_t input_dim = options.input_dim;
  for (int layer = 0; layer < options.layers; ++layer) {
    for (const char* direction : {"forward", "backward"}) {
      if (direction[0] == 'b' && !options.bidirectional) continue;
      cells_.push_back(std::make_unique<LstmCell>(input_dim, options.dim));
      child(fmt::format("{}_{}", direction, layer), *cells_.back());
    }
    input_dim = options.bidirectional ? 2 * options.dim : options.dim;
  }
  child("dropout", dropout_);
}

LstmOutput Lstm::forward(const Variable& x, const Tensor& lengths, const std::vector<LstmState>& initial) {
  Scope scope = enter();
  require(x.rank() == 3 && x.size(1) > 0, "Lstm: x is {}, not [B, T, in] with T > 0", x.describe());
  require(initial.empty() || initial.size() == cells_.size(), "Lstm: {} initial states for {} layers and directions",
          initial.size(), cells_.size());
  std::int64_t B = x.size(0), T = x.size(1);
  Activity real = activity(lengths, B, T, x.device());
  LstmOutput out;
  Variable states = transpose(x, 0, 1);  // time first: a step is one block
  for (std::size_t next = 0; next < cells_.size();) {
    if (next > 0) states = dropout_.forward(states);
    std::vector<Variable> directions;
    for (bool backward : {false, true}) {
      if (backward && !options_.bidirectional) continue;
      LstmState begin = initial.empty() ? cells_[next]->zero_state(B) : initial[next];
      DirectionOutput result = run(*cells_[next++], states, real, begin, backward);
      directions.push_back(result.states);
      out.last.push_back(result.last);
    }
    states = directions.size() == 1 ? directions[0] : concat(directions, 2);
  }
  out.states = transpose(states, 0, 1);
  return out;
}

}  // namespace fovea
