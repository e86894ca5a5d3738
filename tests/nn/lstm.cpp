#include "nn/lstm.h"

#include <cmath>

#include <boost/test/unit_test.hpp>

#include "nn/checkpoint.h"
#include "tests/nn/module_gradcheck.h"
#include "tests/nn/values.h"

using namespace fovea;
using namespace fovea::test;

namespace {

Tensor lengths_of(const std::vector<std::int32_t>& lengths) {
  return Tensor::from(lengths, {static_cast<std::int64_t>(lengths.size())});
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// Every state of one sentence, from the equations: x [T, in] as rows; states h [T, n].
std::vector<std::vector<double>> plain_lstm(const Module& cell, const std::vector<std::vector<double>>& x) {
  NamedTensors p = state(cell);
  std::vector<double> W = p.at("input_weight").to_vector<double>(), U = p.at("hidden_weight").to_vector<double>();
  std::vector<double> b = p.at("bias").to_vector<double>();
  std::size_t n = b.size() / 4;
  std::vector<double> h(n, 0), c(n, 0);
  std::vector<std::vector<double>> states;
  for (const std::vector<double>& input : x) {
    std::vector<double> gates = b;
    for (std::size_t g = 0; g < 4 * n; ++g) {
      for (std::size_t k = 0; k < input.size(); ++k) gates[g] += input[k] * W[k * 4 * n + g];
      for (std::size_t k = 0; k < n; ++k) gates[g] += h[k] * U[k * 4 * n + g];
    }
    for (std::size_t k = 0; k < n; ++k) {
      double i = logistic(gates[k]), f = logistic(gates[n + k]), g = std::tanh(gates[2 * n + k]),
             o = logistic(gates[3 * n + k]);
      c[k] = f * c[k] + i * g;
      h[k] = o * std::tanh(c[k]);
    }
    states.push_back(h);
  }
  return states;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_lstm_computes_its_equations_in_both_directions) {
  Lstm lstm({.input_dim = 3, .dim = 4, .bidirectional = true});
  randomise(lstm);
  Tensor x = random_tensor({1, 5, 3}, 1);
  std::vector<double> flat = x.to_vector<double>();
  std::vector<std::vector<double>> rows;
  for (std::size_t t = 0; t < 5; ++t)
    rows.emplace_back(flat.begin() + 3 * static_cast<long>(t), flat.begin() + 3 * static_cast<long>(t) + 3);
  std::vector<std::vector<double>> reversed(rows.rbegin(), rows.rend());

  LstmCell forward(3, 4), backward(3, 4);
  NamedTensors all = state(lstm);
  for (auto [cell, prefix] : {std::pair{&forward, "0.forward."}, std::pair{&backward, "0.backward."}}) {
    cell->to(DType::f64);
    for (auto& [name, value] : state(*cell)) value.copy_from(all.at(prefix + name));
  }
  auto ahead = plain_lstm(forward, rows), back = plain_lstm(backward, reversed);
  LstmOutput out = lstm.forward(x, {});
  std::vector<double> states = out.states.value().to_vector<double>();
  for (std::size_t t = 0; t < 5; ++t)
    for (std::size_t k = 0; k < 4; ++k) {
      BOOST_TEST(std::abs(states[t * 8 + k] - ahead[t][k]) < 1e-13);
      BOOST_TEST(std::abs(states[t * 8 + 4 + k] - back[4 - t][k]) < 1e-13);
    }
  BOOST_TEST(largest_difference(out.last[0].hidden.value(), out.states.value().select(1, 4).slice(1, 0, 4)) < 1e-15);
  BOOST_TEST(largest_difference(out.last[1].hidden.value(), out.states.value().select(1, 0).slice(1, 4, 8)) < 1e-15);
}

BOOST_AUTO_TEST_CASE(a_cell_passes_gradcheck) {
  LstmCell cell(3, 2);
  randomise(cell);
  auto forward = [&](auto& in) {
    LstmState next = cell.forward(in[0], {in[1], in[2]});
    return concat({next.hidden, next.cell}, 1);
  };
  BOOST_TEST(module_gradcheck(cell, forward,
                              {random_tensor({3, 3}, 1), random_tensor({3, 2}, 2), random_tensor({3, 2}, 3)}) == "");
}

BOOST_AUTO_TEST_CASE(stacked_bidirectional_layers_over_padding_pass_gradcheck) {
  Lstm lstm({.input_dim = 3, .dim = 2, .layers = 2, .bidirectional = true, .dropout = 0.3});
  randomise(lstm);
  Tensor lengths = lengths_of({2, 4, 1});
  auto forward = [&](auto& in) {
    std::vector<LstmState> initial(4, LstmState{in[1], in[2]});
    LstmOutput out = lstm.forward(in[0], lengths, initial);
    std::vector<Variable> results = {reshape(out.states, {-1})};
    for (const LstmState& last : out.last) {
      results.push_back(reshape(last.hidden, {-1}));
      results.push_back(reshape(last.cell, {-1}));
    }
    return concat(results, 0);
  };
  BOOST_TEST(module_gradcheck(lstm, forward,
                              {random_tensor({3, 4, 3}, 1), random_tensor({3, 2}, 2), random_tensor({3, 2}, 3)}) == "");
}

BOOST_AUTO_TEST_CASE(padding_changes_nothing_in_an_lstm) {
  Lstm lstm({.input_dim = 3, .dim = 4, .layers = 2, .bidirectional = true});
  randomise(lstm);
  Tensor x = random_tensor({3, 7, 3}, 1);
  std::vector<std::int32_t> lengths = {2, 5, 3};
  LstmOutput wide = lstm.forward(x, lengths_of(lengths));
  for (std::int64_t b = 0; b < 3; ++b) {
    std::int64_t n = lengths[static_cast<std::size_t>(b)];
    LstmOutput alone = lstm.forward(x.slice(0, b, b + 1).slice(1, 0, n), {});
    Tensor padded = wide.states.value().slice(0, b, b + 1);
    BOOST_TEST(largest_difference(padded.slice(1, 0, n), alone.states.value()) < 1e-13);
    BOOST_TEST(largest_difference(padded.slice(1, n, 7), here(Tensor::zeros({1, 7 - n, 8}, DType::f64))) == 0);
    for (std::size_t k = 0; k < 4; ++k) {
      BOOST_TEST(largest_difference(wide.last[k].hidden.value().slice(0, b, b + 1), alone.last[k].hidden.value()) <
                 1e-13);
      BOOST_TEST(largest_difference(wide.last[k].cell.value().slice(0, b, b + 1), alone.last[k].cell.value()) < 1e-13);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_fused_sequence_is_the_composed_one) {
  RealSteps padded = real_steps(lengths_of({2, 5, 0}), 3, 5, test_device()), full = real_steps({}, 3, 5, test_device());
  for (const RealSteps& real : {full, padded})
    for (bool backward : {false, true}) {
      std::vector<Variable> x = {{random_tensor({5, 3, 8}, 1), true},
                                 {random_tensor({2, 8}, 2), true},
                                 {random_tensor({3, 2}, 3), true},
                                 {random_tensor({3, 2}, 4), true}};
      auto project = [](const LstmSequence& y) {
        return sum(y.states * Variable(random_tensor({5, 3, 2}, 5))) +
               sum(y.last.hidden * Variable(random_tensor({3, 2}, 6))) +
               sum(y.last.cell * Variable(random_tensor({3, 2}, 7)));
      };
      Variable fused = project(lstm_sequence(x[0], x[1], {x[2], x[3]}, real, backward));
      Variable composed = project(lstm_sequence_composed(x[0], x[1], {x[2], x[3]}, real, backward));
      BOOST_TEST(std::abs(fused.item() - composed.item()) < 1e-13);
      Gradients a = grad(fused, x), b = grad(composed, x);
      for (std::size_t k = 0; k < x.size(); ++k) BOOST_TEST(largest_difference(a[k].value(), b[k].value()) < 1e-13);
    }
}

BOOST_AUTO_TEST_CASE(a_sequence_can_be_differentiated_twice) {
  RealSteps real = real_steps(lengths_of({1, 3}), 2, 3, test_device());
  auto f = [&](const std::vector<Variable>& x) {
    LstmSequence y = lstm_sequence(x[0], x[1], {x[2], x[3]}, real, true);
    return concat({reshape(y.states, {-1}), reshape(y.last.cell, {-1})}, 0);
  };
  std::vector<Variable> x = {{random_tensor({3, 2, 4}, 1), true},
                             {random_tensor({1, 4}, 2), true},
                             {random_tensor({2, 1}, 3), true},
                             {random_tensor({2, 1}, 4), true}};
  BOOST_TEST(gradgradcheck(f, x) == "");
}

BOOST_AUTO_TEST_CASE(what_one_layer_hands_to_the_next_is_dropped_in_training) {
  Lstm lstm({.input_dim = 3, .dim = 4, .layers = 2, .dropout = 0.5});
  randomise(lstm);
  Tensor x = random_tensor({2, 3, 3}, 1);
  auto states = [&] { return lstm.forward(x, {}); };
  RandomScope random({1});
  LstmOutput a = states(), b = states();
  BOOST_TEST(largest_difference(a.last[0].hidden.value(), b.last[0].hidden.value()) == 0);
  BOOST_TEST(largest_difference(a.last[1].hidden.value(), b.last[1].hidden.value()) > 1e-3);
  lstm.train(false);
  BOOST_TEST(largest_difference(states().states.value(), states().states.value()) == 0);
}

BOOST_AUTO_TEST_CASE(states_that_have_changed_before_the_pass_are_refused) {
  Lstm lstm({.input_dim = 3, .dim = 4});
  randomise(lstm);
  auto message_after = [&](Tensor (*kept)(const LstmOutput&)) -> std::string {
    LstmOutput out = lstm.forward(random_tensor({2, 5, 3}, 1), {});
    if (kept) kept(out).fill(0);
    try {
      backward(sum(out.states));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  BOOST_TEST(message_after(nullptr) == "");
  std::string states = message_after([](const LstmOutput& out) { return out.states.value(); });
  BOOST_TEST(states.starts_with("lstm_sequence: its result, f64 [5, 2, 4], was saved for the backward pass and then "),
             states);
  std::string cell = message_after([](const LstmOutput& out) { return out.last[0].cell.value(); });
  BOOST_TEST(cell.starts_with("lstm_sequence: its last cell, f64 [2, 4], was saved"), cell);
}

BOOST_AUTO_TEST_CASE(what_padding_holds_does_not_matter_to_an_lstm) {
  if (test_device() != Device::cpu) return;  // elsewhere the host would have to wait to know that there is a NaN
  Lstm lstm({.input_dim = 3, .dim = 4, .layers = 2, .bidirectional = true});
  randomise(lstm);
  const Tensor tokens = random_tensor({3, 7, 3}, 1), cotangent = random_tensor({3, 7, 8}, 2);
  auto results = [&](double padding) {
    Tensor x = tokens.clone();
    x.select(0, 0).slice(0, 2, 7).fill(padding);
    x.select(0, 2).slice(0, 3, 7).fill(padding);
    std::vector<Variable> leaves{Variable(x, true)};
    for (const NamedParameter& parameter : lstm.parameters()) leaves.push_back(parameter.variable);
    const Variable states = lstm.forward(leaves[0], lengths_of({2, 7, 3})).states;
    std::vector<double> all = states.value().to_vector<double>();
    const Gradients first = grad(states, leaves, Variable(cotangent), {.retain_graph = true});
    Variable sum_of_squares(here(Tensor::zeros({}, DType::f64)));
    for (const Variable& gradient : grad(states, leaves, Variable(cotangent), {.create_graph = true}))
      sum_of_squares = sum_of_squares + sum(square(gradient));
    for (const Gradients& gradients : {first, grad(sum_of_squares, leaves)})
      for (const Variable& gradient : gradients)
        for (double number : gradient.value().to_vector<double>()) all.push_back(number);
    return all;
  };
  const std::vector<double> zeros = results(0);
  for (double padding : {std::nan(""), HUGE_VAL, -1e300}) {
    const std::vector<double> found = results(padding);
    for (std::size_t k = 0; k < zeros.size(); ++k) BOOST_TEST(std::abs(found[k] - zeros[k]) <= 1e-13);
  }
}

BOOST_AUTO_TEST_CASE(an_lstm_starts_with_open_forget_gates) {
  Lstm lstm({.input_dim = 30, .dim = 50, .layers = 2});
  lstm.to(test_device());
  lstm.initialise(1);
  NamedTensors p = state(lstm);
  std::vector<double> bias = p.at("1.forward.bias").to_vector<double>();
  for (std::size_t g = 0; g < 200; ++g) BOOST_TEST(bias[g] == (50 <= g && g < 100 ? 1 : 0));
  auto largest = [&](const char* name) {
    double bound = 0;
    for (double x : p.at(name).to_vector<double>()) bound = std::max(bound, std::abs(x));
    return bound;
  };
  for (auto [name, in] : {std::pair{"0.forward.input_weight", 30.0}, std::pair{"0.forward.hidden_weight", 50.0}}) {
    double bound = std::sqrt(6 / (in + 50));
    BOOST_TEST((0.99 * bound < largest(name) && largest(name) <= bound));
  }
}

BOOST_AUTO_TEST_CASE(an_lstm_refuses_what_does_not_fit) {
  Lstm lstm({.input_dim = 3, .dim = 2});
  lstm.to(test_device());
  lstm.initialise(1);
  lstm.to(DType::f64);
  Tensor x = random_tensor({2, 4, 3}, 1);
  BOOST_TEST(error_of([&] { lstm.forward(x.select(0, 0), {}); }) ==
             "Lstm: x is f64 [4, 3]; expected [B, T, in] with T > 0");
  for (const Tensor& lengths : {lengths_of({4, 5}), here(lengths_of({4, 5}))})  // an error of a GPU comes with a wait
    BOOST_TEST(error_of([&] { lstm.forward(x, lengths).states.value().to_vector<double>(); }) ==
               "Lstm: the length at [1] of [2] is 5; it must be in 0 to 4");
  BOOST_TEST(error_of([&] { lstm.forward(x, lengths_of({4})); }) ==
             "Lstm: the lengths are i32 [1]; expected one for each of the 2 sentences");
  const Variable state(random_tensor({3, 2}, 1));
  BOOST_TEST(error_of([&] {
               lstm.forward(x, {}, {{state, state}});
             }) == "Lstm: a tensor of an initial state is f64 [3, 2]; expected [2, 2]");
  BOOST_TEST(error_of([] { Lstm({.input_dim = 3, .dim = 2, .layers = 0}); }) ==
             "Lstm: there are 0 layers; it must be at least 1");
}
