// A part of a model that is computed again in the backward pass.
#include "autograd/recompute.h"

#include <cmath>

#include <boost/test/unit_test.hpp>

#include "autograd/gradcheck.h"
#include "autograd/operations.h"
#include "tests/autograd/random_inputs.h"

using namespace fovea;
using namespace fovea::test;

namespace {

/// Two outputs of two inputs and a parameter, with dropout between.
struct Part {
  Variable weight = random_input({4, 4}, 9);
  std::vector<Variable> operator()(const std::vector<Variable>& x) const {
    const Variable hidden = dropout(tanh(matmul(x[0], weight)), 0.4);
    return {hidden * x[1] + matmul(hidden, weight), exp(x[1])};
  }
};

/// The loss and its gradients with respect to the inputs and the parameter.
std::vector<std::vector<double>> results(bool again, double of_second) {
  const Part part;
  const Variable x = random_input({3, 4}, 1), y = random_input({3, 4}, 2);
  RandomScope random({.seed = 5, .update = 7});
  const std::vector<Variable> inputs{x * x, y};  // one of them has a history
  const std::vector<Variable> z = again ? recompute("part", part, inputs, {part.weight}) : part(inputs);
  const Variable loss = sum(sin(z[0])) + of_second * sum(dropout(z[1], 0.3));
  std::vector<std::vector<double>> all{{loss.item()}};
  for (const Variable& gradient : grad(loss, {x, y, part.weight})) all.push_back(gradient.value().to_vector<double>());
  return all;
}

/// A loss of x, x' and a weight. Two parts read h = x x, and one of them consists of two parts that read it too.
Variable nested_parts(bool again, const std::vector<Variable>& x) {
  const Part part{x[2]};
  const auto called = [again, part](const char* name, const RecomputedFunction& f, const std::vector<Variable>& in) {
    return again ? recompute(name, f, in, {part.weight}) : f(in);
  };
  const RecomputedFunction pair = [called, part](const std::vector<Variable>& in) {
    const std::vector<Variable> first = called("first", part, {in[0], in[1]});
    const std::vector<Variable> second = called("second", part, {in[0], first[0]});
    return std::vector<Variable>{first[1] + second[0], second[1]};
  };
  const Variable h = x[0] * x[0];
  const std::vector<Variable> inner = called("pair", pair, {h, x[1]}), beside = called("beside", part, {h, inner[0]});
  return sum(sin(inner[0])) + sum(square(beside[0])) + sum(dropout(inner[1] * beside[1], 0.3));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(recomputation)

BOOST_AUTO_TEST_CASE(results_and_gradients_have_the_same_bits) {
  for (double of_second : {0.0, 0.7}) {
    const auto again = results(true, of_second), kept = results(false, of_second);
    for (std::size_t k = 0; k < kept.size(); ++k) BOOST_TEST(again[k] == kept[k], boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(first_and_second_derivatives_are_right) {
  const Variable weight = random_input({4, 4}, 9);
  auto f = [](const std::vector<Variable>& x) {
    RandomScope random({.seed = 5});
    auto part = [w = x[2]](const std::vector<Variable>& in) {
      const Variable hidden = dropout(tanh(matmul(in[0], w)), 0.4);
      return std::vector<Variable>{hidden * in[1], exp(in[1])};
    };
    const std::vector<Variable> z = recompute("part", part, {x[0] * x[0], x[1]}, {x[2]});
    return z[0] + square(z[1]);
  };
  const std::vector<Variable> inputs{random_input({3, 4}, 1), random_input({3, 4}, 2), random_input({4, 4}, 3)};
  BOOST_TEST(gradcheck(f, inputs) == "");
  BOOST_TEST(gradgradcheck(f, inputs) == "");
}

BOOST_AUTO_TEST_CASE(parts_may_share_an_input_and_have_parts_of_their_own) {
  const std::vector<Variable> inputs{random_input({3, 4}, 1), random_input({3, 4}, 2), random_input({4, 4}, 9)};
  auto loss_of = [&](bool again, const std::vector<Variable>& x) {
    RandomScope random({.seed = 5, .update = 7});
    return nested_parts(again, x);
  };
  const Variable kept = loss_of(false, inputs), again = loss_of(true, inputs);
  BOOST_TEST(again.item() == kept.item());
  const Gradients expected = grad(kept, inputs), found = grad(again, inputs);
  for (std::size_t k = 0; k < inputs.size(); ++k) {  // a shared input adds up its gradients in another order
    const std::vector<double> a = found[k].value().to_vector<double>(), b = expected[k].value().to_vector<double>();
    for (std::size_t e = 0; e < b.size(); ++e) BOOST_TEST(std::abs(a[e] - b[e]) <= 1e-13 * (1 + std::abs(b[e])));
  }
  auto f = [&](const std::vector<Variable>& x) { return loss_of(true, x); };
  BOOST_TEST(gradcheck(f, inputs) == "");
  BOOST_TEST(gradgradcheck(f, inputs) == "");
}

BOOST_AUTO_TEST_CASE(nothing_of_the_way_is_kept) {
  const Variable x = random_input({100, 100}, 1);
  auto long_way = [](const std::vector<Variable>& in) {
    Variable y = in[0];
    for (int step = 0; step < 20; ++step) y = sin(y);
    return std::vector<Variable>{y};
  };
  auto bytes_held = [&](auto&& call) {
    const std::size_t before = allocator_statistics(test_device()).bytes_in_use;
    const Variable y = call();
    return allocator_statistics(test_device()).bytes_in_use - before;
  };
  const std::size_t kept = bytes_held([&] { return long_way({x})[0]; });
  const std::size_t again = bytes_held([&] { return recompute("sines", long_way, {x}, {})[0]; });
  BOOST_TEST(kept >= 20 * x.value().bytes());
  BOOST_TEST(again < 2 * x.value().bytes());
}

BOOST_AUTO_TEST_CASE(only_what_the_results_depend_on_gets_a_gradient) {
  const Variable x = random_input({3}, 1), weight = random_input({3}, 2), unused = random_input({3}, 3);
  auto part = [&](const std::vector<Variable>& in) { return std::vector<Variable>{in[0] * weight, weight.detach()}; };
  const std::vector<Variable> z = recompute("part", part, {x}, {weight, unused, weight});  // one is listed twice
  backward(sum(z[1]) + sum(x), {}, {.retain_graph = true});
  BOOST_TEST(!weight.grad().defined());
  backward(sum(z[0]));
  BOOST_TEST(weight.grad().value().to_vector<double>() == x.value().to_vector<double>());
  BOOST_TEST(!unused.grad().defined());
  const Variable loss = sum(recompute("part", part, {x}, {})[1]) + sum(x);
  BOOST_TEST(sum(grad(loss, {x}, {}, {.create_graph = true})[0]).item() == 3);
}

BOOST_AUTO_TEST_CASE(without_a_gradient_it_is_a_plain_call) {
  int calls = 0;
  const Variable x(random_input({3}, 1).value());
  const auto y = recompute("part", [&](const std::vector<Variable>& in) { return ++calls, in; }, {x}, {});
  BOOST_TEST(calls == 1);
  BOOST_TEST(!y[0].requires_grad());
}

BOOST_AUTO_TEST_SUITE_END()
