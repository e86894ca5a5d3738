#include "nn/lstm.h"

#include <cmath>

#include "tensor/constant.h"

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

LstmLayer::LstmLayer(std::int64_t input_dim, std::int64_t dim, bool bidirectional) : forward_(input_dim, dim) {
  child("forward", forward_);
  if (bidirectional) child("backward", backward_.emplace(input_dim, dim));
}

Variable LstmLayer::forward(const Variable& x, const RealSteps& real, std::span<const LstmState> initial,
                            std::vector<LstmState>& last) const {
  Scope scope = enter();
  std::vector<Variable> directions;
  auto run = [&](const LstmCell& cell, bool backward) {
    LstmState begin = initial.empty() ? cell.zero_state(x.size(1)) : initial[directions.size()];
    LstmSequence result = lstm_sequence(cell.input_gates(x), cell.hidden_weight(), begin, real, backward);
    directions.push_back(result.states);
    last.push_back(result.last);
  };
  run(forward_, false);
  if (backward_) run(*backward_, true);
  Variable states = backward_ ? concat(directions, 2) : directions[0];
  if (!real.active.defined()) return states;
  return where(real.active, states, constant_like(states, 0));
}

Lstm::Lstm(const LstmOptions& options) : options_(options), dropout_(options.dropout) {
  require(options.layers >= 1, "Lstm: there are {} layers; it must be at least 1", options.layers);
  std::int64_t input_dim = options.input_dim;
  for (int layer = 0; layer < options.layers; ++layer) {
    layers_.push_back(std::make_unique<LstmLayer>(input_dim, options.dim, options.bidirectional));
    child(std::to_string(layer), *layers_.back());
    input_dim = options.bidirectional ? 2 * options.dim : options.dim;
  }
  child("dropout", dropout_);
}

LstmOutput Lstm::forward(const Variable& x, const Tensor& lengths, const std::vector<LstmState>& initial) const {
  Scope scope = enter();
  require(x.rank() == 3 && x.size(1) > 0, "Lstm: x is {}; expected [B, T, in] with T > 0", x);
  std::size_t directions = options_.bidirectional ? 2 : 1, wanted = layers_.size() * directions;
  require(initial.empty() || initial.size() == wanted,
          "Lstm: there are {} initial states; expected {}, one for each layer and direction", initial.size(), wanted);
  for (const LstmState& state : initial)
    for (const Variable* one : {&state.hidden, &state.cell})
      require(one->defined() && one->shape() == Shape{x.size(0), options_.dim},
              "Lstm: a tensor of an initial state is {}; expected [{}, {}]", *one, x.size(0), options_.dim);
  RealSteps real = real_steps(lengths, x.size(0), x.size(1), x.device());
  LstmOutput out;
  Variable states = transpose(x, 0, 1);  // time first, so that each step is contiguous
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (layer > 0) states = dropout_.forward(states);
    std::span<const LstmState> begin(initial);
    if (!initial.empty()) begin = begin.subspan(layer * directions, directions);
    states = layers_[layer]->forward(states, real, begin, out.last);
  }
  out.states = transpose(states, 0, 1);
  return out;
}

}  // namespace fovea
