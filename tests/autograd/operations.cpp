// First and second derivatives of every operation that is not element-wise.
#include "autograd/operations.h"

#include <limits>

#include <boost/test/unit_test.hpp>

#include "autograd/gradcheck.h"
#include "autograd/map.h"
#include "tensor/formula/functions.h"
#include "tensor/gemm.h"
#include "tests/autograd/random_inputs.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;
using namespace fovea::test;

namespace {

struct OperationCase {
  const char* name;
  DifferentiableFunction f;
  std::vector<Variable> inputs;
};

using Inputs = std::vector<Variable>;

std::vector<OperationCase> operation_cases() {
  auto in = [](const Shape& shape, std::uint64_t seed) { return random_input(shape, seed); };
  Tensor index = here(Tensor::from(std::vector<std::int64_t>{2, 0, 2, 1, 4, 2}, {2, 3}));
  Tensor offsets = here(Tensor::from(std::vector<std::int32_t>{0, 1, 2, 2, 1, 0, 0, 2}, {2, 4}));
  Tensor allow = here(Tensor::of({1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1}, {3, 4}, DType::boolean));
  Tensor targets = here(Tensor::from(std::vector<std::int32_t>{3, -1, 0}, {3}));
  Tensor numbers = here(Tensor::of({0.5, -1, 2, 0.25, -3, 1}, {2, 3}));
  Tensor soft = here(Tensor::of({0, 1, 0.3, 1, 0.5, 0}, {2, 3}));
  return {
      {"add", [](const Inputs& x) { return x[0] + x[1]; }, {in({2, 3}, 1), in({3}, 2)}},
      {"subtract", [](const Inputs& x) { return x[0] - x[1]; }, {in({2, 3}, 1), in({2, 1}, 2)}},
      {"multiply", [](const Inputs& x) { return x[0] * x[1] * x[0]; }, {in({2, 3}, 1), in({1, 3}, 2)}},
      {"divide", [](const Inputs& x) { return x[0] / (x[1] + 3.0); }, {in({2, 3}, 1), in({3}, 2)}},
      {"divide a number", [](const Inputs& x) { return 2.0 / (x[0] + 3.0); }, {in({2, 3}, 1)}},
      {"affine", [](const Inputs& x) { return 2.0 - 3.0 * (x[0] / 7.0) - 1.0; }, {in({2, 3}, 1)}},
      {"where", [allow](const Inputs& x) { return square(where(allow, x[0], x[1])); }, {in({3, 4}, 1), in({4}, 2)}},
      {"matmul", [](const Inputs& x) { return matmul(x[0], x[1]); }, {in({3, 4}, 1), in({4, 5}, 2)}},
      {"matmul scaled",
       [](const Inputs& x) { return matmul(x[0], transpose(x[1], -1, -2), {.scale = 0.7}); },
       {in({2, 3, 4}, 1), in({2, 5, 4}, 2)}},
      {"matmul broadcast", [](const Inputs& x) { return matmul(x[0], x[1]); }, {in({2, 1, 3, 4}, 1), in({3, 4, 2}, 2)}},
      {"matmul shared", [](const Inputs& x) { return matmul(x[0], x[1]); }, {in({2, 3, 4}, 1), in({4, 2}, 2)}},
      {"matmul ordered",
       [](const Inputs& x) {
         return matmul(x[0], x[1], {.memory_order = {0, 2, 1, 3}});
       },
       {in({2, 2, 3, 4}, 1), in({2, 2, 4, 3}, 2)}},
      {"linear of one row, without a bias",
       [](const Inputs& x) { return linear(x[0], x[1]); },
       {in({3}, 1), in({3, 4}, 2)}},
      {"linear",
       [](const Inputs& x) { return linear(x[0], x[1], x[2]); },
       {in({2, 3, 4}, 1), in({4, 5}, 2), in({5}, 3)}},
      {"sum",
       [](const Inputs& x) {
         return square(sum(x[0], {0, -1}));
       },
       {in({2, 3, 4}, 1)}},
      {"sum kept", [](const Inputs& x) { return x[0] * sum(x[0], {1}, true); }, {in({2, 3, 4}, 1)}},
      {"mean", [](const Inputs& x) { return square(mean(x[0])); }, {in({2, 3}, 1)}},
      {"maximum_over", [](const Inputs& x) { return square(maximum_over(x[0], 1)); }, {in({3, 5}, 1)}},
      {"sum_to",
       [](const Inputs& x) {
         return square(sum_to(x[0], {3, 1}));
       },
       {in({2, 3, 4}, 1)}},
      {"broadcast_to",
       [](const Inputs& x) {
         return square(broadcast_to(x[0], {2, 3, 4}));
       },
       {in({3, 1}, 1)}},
      {"prefix sums", [](const Inputs& x) { return square(cumulative_sum(x[0])); }, {in({2, 5}, 1)}},
      {"suffix sums", [](const Inputs& x) { return square(cumulative_sum(x[0], true)); }, {in({2, 5}, 1)}},
      {"reshape",
       [](const Inputs& x) {
         return square(reshape(transpose(x[0], 0, 1), {2, -1}));
       },
       {in({3, 4}, 1)}},
      {"permute",
       [](const Inputs& x) {
         return square(permute(x[0], {2, 0, 1})) * x[1];
       },
       {in({2, 3, 4}, 1), in({4, 2, 3}, 2)}},
      {"unsqueeze", [](const Inputs& x) { return x[0] * unsqueeze(x[1], 1); }, {in({2, 3}, 1), in({2}, 2)}},
      {"slice", [](const Inputs& x) { return square(slice(x[0], 1, 1, 3)); }, {in({2, 4}, 1)}},
      {"select", [](const Inputs& x) { return square(select(x[0], -2, 1)); }, {in({3, 4}, 1)}},
      {"concat",
       [](const Inputs& x) {
         return square(concat({x[0], x[1], x[0]}, 1));
       },
       {in({2, 1, 3}, 1), in({2, 4, 3}, 2)}},
      {"gather_rows", [index](const Inputs& x) { return square(gather_rows(x[0], index)); }, {in({5, 3}, 1)}},
      {"scatter_rows", [index](const Inputs& x) { return square(scatter_rows(x[0], index, 5)); }, {in({2, 3, 2}, 1)}},
      {"gather_last", [offsets](const Inputs& x) { return square(gather_last(x[0], offsets)); }, {in({3, 2, 3}, 1)}},
      {"scatter_last",
       [offsets](const Inputs& x) { return square(scatter_last(x[0], offsets, 3)); },
       {in({3, 2, 4}, 1)}},
      {"softmax", [](const Inputs& x) { return softmax(x[0]); }, {in({3, 5}, 1)}},
      {"masked softmax", [allow](const Inputs& x) { return softmax(x[0], allow); }, {in({2, 3, 4}, 1)}},
      {"log_softmax", [](const Inputs& x) { return log_softmax(x[0]); }, {in({3, 5}, 1)}},
      {"layer_norm",
       [](const Inputs& x) { return layer_norm(x[0], x[1], x[2]); },
       {in({3, 6}, 1), in({6}, 2), in({6}, 3)}},
      {"add_norm",
       [](const Inputs& x) {
         const auto [sum, normed] = add_norm(x[0], x[1], {}, 0.3, x[2], x[3]);
         return square(sum) * normed + sum;
       },
       {in({3, 6}, 1), in({3, 6}, 4), in({6}, 2), in({6}, 3)}},
      {"add_norm without dropout",
       [numbers](const Inputs& x) {
         const auto [sum, normed] = add_norm(x[0], x[1], numbers, 0, x[2], x[3]);
         return square(sum) * normed;
       },
       {in({2, 3, 5}, 1), in({2, 3, 5}, 4), in({5}, 2), in({5}, 3)}},
      {"add_norm, the norm alone",
       [numbers](const Inputs& x) { return add_norm(x[0], x[1], numbers, 0.3, x[2], x[3]).normed; },
       {in({2, 3, 5}, 1), in({2, 3, 5}, 4), in({5}, 2), in({5}, 3)}},
      {"add_norm, the sum alone",
       [](const Inputs& x) { return square(add_norm(x[0], x[1], {}, 0.3, x[2], x[3]).sum); },
       {in({3, 6}, 1), in({3, 6}, 4), in({6}, 2), in({6}, 3)}},
      {"dropout", [](const Inputs& x) { return square(dropout(x[0], 0.3)); }, {in({5, 7}, 1)}},
      {"dropout_add",
       [](const Inputs& x) { return square(dropout_add(x[0], x[1], 0.4)); },
       {in({5, 7}, 1), in({5, 7}, 2)}},
      {"cross_entropy",
       [targets](const Inputs& x) { return cross_entropy(x[0], targets, {.label_smoothing = 0.1, .ignored = -1}); },
       {in({3, 5}, 1)}},
      {"binary_cross_entropy", [soft](const Inputs& x) { return binary_cross_entropy(x[0], soft); }, {in({2, 3}, 1)}},
      {"lstm_cell hidden",
       [](const Inputs& x) { return lstm_cell(x[0], x[1]).hidden; },
       {in({2, 12}, 1), in({2, 3}, 2)}},
      {"lstm_cell both",
       [](const Inputs& x) {
         LstmState state = lstm_cell(x[0], x[1]);
         return state.hidden * state.cell;
       },
       {in({2, 12}, 1), in({2, 3}, 2)}},
      {"cast", [](const Inputs& x) { return cast(cast(x[0], DType::f64), DType::f64) * 2.0; }, {in({3}, 1)}},
  };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(operations)

BOOST_AUTO_TEST_CASE(first_derivatives_are_right) {
  for (const OperationCase& operation : operation_cases()) BOOST_TEST_CONTEXT(operation.name) {
      BOOST_TEST(gradcheck(operation.f, operation.inputs) == "");
    }
}

BOOST_AUTO_TEST_CASE(second_derivatives_are_right) {
  for (const OperationCase& operation : operation_cases()) BOOST_TEST_CONTEXT(operation.name) {
      BOOST_TEST(gradgradcheck(operation.f, operation.inputs) == "");
    }
}

// As for element-wise functions: what a row holds does not matter to gradients if its cotangent is 0.
BOOST_AUTO_TEST_CASE(a_row_with_a_zero_cotangent_sends_back_zeros_whatever_it_holds) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor allow = here(Tensor::of({1, 0, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1}, {3, 4}, DType::boolean));
  const Tensor targets = here(Tensor::from(std::vector<std::int32_t>{3, 2, 0}, {3}));
  const Variable gain = random_input({4}, 2), bias = random_input({4}, 3);
  const std::vector<OperationCase> cases{
      {"softmax", [](const Inputs& x) { return softmax(x[0]); }, {}},
      {"softmax masked", [allow](const Inputs& x) { return softmax(x[0], allow); }, {}},
      {"log_softmax", [](const Inputs& x) { return log_softmax(x[0]); }, {}},
      {"layer_norm", [](const Inputs& x) { return layer_norm(x[0], x[1], x[2]); }, {gain, bias}},
      {"add_norm", [](const Inputs& x) { return add_norm(x[0], x[0], {}, 0, x[1], x[2]).normed; }, {gain, bias}},
      {"cross_entropy", [targets](const Inputs& x) { return cross_entropy(x[0], targets); }, {}},
      {"smoothed", [targets](const Inputs& x) { return cross_entropy(x[0], targets, {.label_smoothing = 0.1}); }, {}},
      {"maximum_over", [](const Inputs& x) { return maximum_over(x[0], -1); }, {}},
      {"lstm_cell: the gates",
       [](const Inputs& x) {
         const LstmState state = lstm_cell(x[0], x[1]);
         return concat({state.hidden, state.cell}, 1);
       },
       {random_input({3, 1}, 7)}},
      {"lstm_cell: the cell",
       [](const Inputs& x) {
         const LstmState state = lstm_cell(x[1], x[0]);
         return concat({state.hidden, state.cell}, 1);
       },
       {random_input({3, 16}, 8)}},
      {"cumulative_sum", [](const Inputs& x) { return cumulative_sum(x[0]); }, {}}};
  std::vector<OperationCase> all_cases = cases;
  if (test_device() == Device::cpu) {  // elsewhere the host would have to wait to know that there is a NaN
    const Variable weight = random_input({4, 2}, 5), short_bias = random_input({2}, 6);
    all_cases.push_back({"linear", [](const Inputs& x) { return linear(x[0], x[1], x[2]); }, {weight, short_bias}});
    all_cases.push_back({"linear without bias", [](const Inputs& x) { return linear(x[0], x[1]); }, {weight}});
    all_cases.push_back({"product of rows in batches",
                         [](const Inputs& x) {
                           return matmul(reshape(x[0], {3, 1, 4}), x[1]);
                         },
                         {weight}});
  }
  for (const OperationCase& operation : all_cases)
    for (bool create_graph : {false, true})
      for (DType dtype : {DType::f64, DType::f32}) {
        auto gradients = [&](const std::vector<double>& row) {
          Tensor x = random_input({3, 4}, 1).value().to(Device::cpu).clone();
          x.slice(0, 1, 2).copy_from(Tensor::from(row, {1, 4}));
          Inputs inputs{Variable(here(x).to(dtype), true)};
          for (const Variable& more : operation.inputs) inputs.emplace_back(more.value().to(dtype), true);
          const Variable y = operation.f(inputs);
          Tensor cotangent = random_input(y.shape(), 4).value().to(Device::cpu).clone();
          cotangent.slice(0, 1, 2).fill(0);
          std::vector<double> all;
          for (const Variable& g : grad(y, inputs, here(cotangent).to(dtype), {.create_graph = create_graph}))
            for (double number : g.value().to_vector<double>()) all.push_back(number);
          for (std::size_t k = 4; k < 8; ++k) BOOST_TEST(all[k] == 0, operation.name);
          return all;
        };
        const std::vector<double> zeros = gradients({0, 0, 0, 0});
        for (const std::vector<double>& row :
             {std::vector<double>{nan, nan, nan, nan}, {1, nan, infinity, -infinity}, {1e38, -1e38, 3e38, 0}})
          BOOST_TEST((gradients(row) == zeros), operation.name << ", graph " << create_graph);
      }
}

// A weight of 0 gives 0, whatever arrives there; so does an allowed element that is NaN for the elements behind a mask.
BOOST_AUTO_TEST_CASE(where_a_weight_of_softmax_is_zero_so_is_the_gradient) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor allow = here(Tensor::of({1, 1, 0, 0}, {4}, DType::boolean));
  for (bool create_graph : {false, true}) {
    auto gradient = [&](std::vector<double> logits, std::vector<double> cotangent) {
      const Variable x(here(Tensor::from(logits, {4})), true);
      const Tensor g = here(Tensor::from(cotangent, {4}));
      return grad(softmax(x, allow), {x}, g, {.create_graph = create_graph})[0].value().to_vector<double>();
    };
    for (double hidden : {infinity, nan})
      BOOST_TEST((gradient({1, 2, 3, 4}, {1, 2, hidden, 7}) == gradient({1, 2, 3, 4}, {1, 2, 0, 0})), create_graph);
    const std::vector<double> of_nan = gradient({1, nan, 3, 4}, {1, 2, 3, 7});
    BOOST_TEST((std::isnan(of_nan[0]) && std::isnan(of_nan[1]) && of_nan[2] == 0 && of_nan[3] == 0), create_graph);
  }
}

// Rows and elements that receive no gradient send none back, also where the gain is not finite.
BOOST_AUTO_TEST_CASE(a_gain_that_is_not_finite_does_not_matter_where_no_gradient_arrives) {
  const Tensor x = random_input({2, 4}, 1).value(), bias = random_input({4}, 2).value();
  const Tensor cotangent = here(Tensor::of({0.5, 0, -1, 2, 0, 0, 0, 0}, {2, 4}));
  for (DType dtype : {DType::f64, DType::f32})
    for (bool create_graph : {false, true}) {
      auto gradients = [&](double gain_of_second) {
        const Tensor gain = here(Tensor::of({1.5, gain_of_second, -0.5, 2}, {4}));
        const std::vector<Variable> inputs{{x.to(dtype), true}, {gain.to(dtype), true}, {bias.to(dtype), true}};
        const Variable y = layer_norm(inputs[0], inputs[1], inputs[2]);
        std::vector<double> all;
        for (const Variable& g : grad(y, inputs, cotangent.to(dtype), {.create_graph = create_graph}))
          for (double number : g.value().to_vector<double>()) all.push_back(number);
        return all;
      };
      const std::vector<double> expected = gradients(3);
      for (double gain : {INFINITY, -INFINITY, NAN}) {
        const std::vector<double> found = gradients(gain);
        for (std::size_t k = 0; k < found.size(); ++k)
          BOOST_TEST(std::abs(found[k] - expected[k]) < 1e-5, "gain " << gain << ", gradient " << k);
      }
    }
}

namespace {

/// linear(x, weight, bias) and its gradients, where bit k of `needed` says whether operand k needs one, agree with the
/// product and the sum in f64.
void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, unsigned needed, double tolerance) {
  auto run = [&](DType dtype, auto layer) {
    std::vector<Variable> inputs;
    for (const Tensor& one : {x, weight, bias})
      inputs.emplace_back(one.dtype() == dtype ? one : one.to(dtype), needed >> inputs.size() & 1);
    const Variable y = layer(inputs);
    backward(y, random_tensor(y.shape(), DType::f64, -1, 1, 5).to(dtype));
    std::vector<Variable> all{y};
    for (const Variable& input : inputs) all.push_back(input.grad());
    return all;
  };
  const auto found = run(x.dtype(), [](const Inputs& in) { return linear(in[0], in[1], in[2]); });
  const Precision before = matmul_precision();
  set_matmul_precision(Precision::f32);
  const auto expected = run(DType::f64, [](const Inputs& in) { return linear(in[0], in[1]) + in[2]; });
  set_matmul_precision(before);
  const char* names[] = {"result", "gradient of x", "gradient of the weight", "gradient of the bias"};
  for (std::size_t k = 0; k < found.size(); ++k) {
    BOOST_TEST_REQUIRE(found[k].defined() == expected[k].defined(), names[k]);
    if (!found[k].defined()) continue;
    BOOST_TEST(found[k].shape() == expected[k].shape(), names[k]);
    check_close(found[k].value(), expected[k].value().to_vector<double>(), tolerance, names[k]);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_linear_layer_is_a_product_and_a_sum_in_every_type_and_layout) {
  const Precision before = matmul_precision();
  struct Case {
    DType dtype;
    Precision precision;
    double tolerance;
  };
  for (const Case& in : {Case{DType::f64, Precision::f32, 1e-13}, Case{DType::f32, Precision::f32, 1e-5},
                         Case{DType::f32, Precision::bf16, 0.05}}) {
    set_matmul_precision(in.precision);
    for (const Shape& shape : {Shape{19}, {1, 19}, {0, 19}, {33, 19}, {2, 17, 19}, {2, 1, 3, 19}}) {
      const Tensor weight = random_tensor({19, 21}, in.dtype, -1, 1, 1), bias = random_tensor({21}, in.dtype, -1, 1, 2);
      const Tensor x = random_tensor(shape, in.dtype, -1, 1, 3);
      for (const Tensor& view : layouts(x)) check_linear(view, weight, bias, 7, in.tolerance);
      for (const Tensor& view : layouts(weight)) check_linear(x, view, bias, 7, in.tolerance);
      for (const Tensor& view : layouts(bias)) check_linear(x, weight, view, 7, in.tolerance);
      for (unsigned needed = 1; needed < 7; ++needed) check_linear(x, weight, bias, needed, in.tolerance);
    }
  }
  set_matmul_precision(before);
}

BOOST_AUTO_TEST_CASE(what_an_ignored_row_holds_does_not_matter_to_gradients) {
  const Tensor targets = here(Tensor::from(std::vector<std::int32_t>{-100, 1}, {2}));
  for (bool create_graph : {false, true}) {
    Variable x(here(Tensor::of({1, NAN, 0, 2}, {2, 2})), true);
    const Variable first = grad(sum(cross_entropy(x, targets)), {x}, {}, {.create_graph = create_graph})[0];
    const std::vector<double> found = first.value().to_vector<double>();
    BOOST_TEST((found[0] == 0 && found[1] == 0 && found[2] > 0));
    if (!create_graph) continue;
    const std::vector<double> second = grad(sum(square(first)), {x})[0].value().to_vector<double>();
    BOOST_TEST((second[0] == 0 && second[1] == 0 && std::isfinite(second[2])));
  }
}

BOOST_AUTO_TEST_CASE(gradcheck_refuses_to_check_nothing) {
  const Variable constant(here(Tensor::of({1, 2}, {2})));
  BOOST_CHECK_EXCEPTION(gradcheck([](const Inputs& x) { return x[0] * x[0]; }, {constant}), Error, [](const Error& e) {
    return e.what() == std::string("gradcheck: none of the 1 inputs requires a gradient; there is nothing to check");
  });
}

BOOST_AUTO_TEST_CASE(a_wrong_rule_is_found) {
  // gradcheck must be able to fail: the gradient of x · detach(x) is x, not 2 x.
  Variable x = random_input({4}, 3);
  BOOST_TEST(gradcheck([](const Inputs& in) { return in[0] * in[0].detach(); }, {x}) != "");
  BOOST_TEST(gradgradcheck([](const Inputs& in) { return in[0] * in[0] * in[0].detach(); }, {x}) != "");
}

BOOST_AUTO_TEST_CASE(errors_name_operation_shapes_and_rule) {
  auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  Variable a = random_input({8, 20, 64}, 1), b = random_input({8, 32, 20}, 2), f32(here(Tensor::zeros({8, 20, 64})));
  BOOST_TEST(
      message([&] { matmul(a, b); }) ==
      "matmul: the inner dimensions differ: a is [8, 20, 64], b is [8, 32, 20]; a's last (64) must equal b's second to "
      "last (32)");
  BOOST_TEST(message([&] { a + b; }) ==
             "add: [8, 20, 64] and [8, 32, 20] do not broadcast: dimension 1 from the end is 64 and 20; they must be "
             "equal or 1");
  BOOST_TEST(
      message([&] { a + f32; }) ==
      fmt::format(
          "add: the operands differ: f64 [8, 20, 64] on {0} and f32 [8, 20, 64] on {0}; cast or move one of them",
          name(test_device())));
  BOOST_TEST(message([&] {
               linear(a, random_input({32, 5}, 1));
             }) == "linear: x is f64 [8, 20, 64], the weight f64 [32, 5]; x's last size must be the weight's first");
  const Variable rows = random_input({3, 2}, 1), wide = random_input({2, 5}, 1);
  const Variable narrow(wide.value().to(DType::f32)), bf16(rows.value().to(DType::bf16));
  BOOST_TEST(message([&] { linear(rows, narrow); }) ==
             fmt::format("linear: x is f64 [3, 2] on {0}, the weight f32 [2, 5] on {0}; they must be alike",
                         name(test_device())));
  BOOST_TEST(message([&] { matmul(bf16, bf16); }) == "matmul: computes in f32 or f64, not bf16; cast the tensor first");
  BOOST_TEST(message([&] { broadcast_to(rows, {7}); }) == "broadcast_to: [3, 2] does not broadcast to [7]");
  BOOST_TEST(message([&] { map(Exp{}, Tensor()); }) == "exp: operand 1 is undefined");
  BOOST_TEST(message([&] { Tensor().reshape({1}); }) == "reshape: the tensor is undefined");
  BOOST_TEST(message([&] { slice(a, 1, 3, 21); }) == "slice: [3, 21) is not inside dimension 1 of [8, 20, 64]");
  BOOST_TEST(message([&] {
               concat({a, b}, 0);
             }) == "concat: f64 [8, 20, 64] and f64 [8, 32, 20] differ beside dimension 0");
  const Variable long_one = broadcast_to(Variable(here(Tensor::zeros({1}))), {std::int64_t{1} << 59});
  BOOST_TEST(message([&] { concat(std::vector<Variable>(32, long_one), 0); }).find("concat: the sizes of [") == 0);
  BOOST_TEST(message([&] { reshape(a, {7, -1}); }).find("reshape: [8, 20, 64] has 10240 elements") == 0);
  BOOST_TEST(message([&] { mean(a, {5}); }) == "mean: dimension 5 is out of range for [8, 20, 64]; use -3 to 2");
  BOOST_TEST(message([&] { mean(a, {1, -2}); }) == "mean: dimension -2 is named twice");
  BOOST_TEST(message([&] { mean(Variable(here(Tensor::zeros({3}, DType::boolean)))); }) ==
             "mean: computes in f32 or f64, not bool; cast the tensor first");
  BOOST_TEST(message([&] { select(a, 1, 20); }) == "select: index 20 is out of range for dimension 1 of [8, 20, 64]");
  BOOST_TEST(message([&] { select(a, 3, 0); }) == "select: dimension 3 is out of range for [8, 20, 64]; use -3 to 2");
  BOOST_TEST(message([&] { cast(a, DType::i64); }) ==
             "cast: f64 [8, 20, 64] to i64; a variable is cast to a floating-point type");
  BOOST_TEST(message([&] { Variable(Tensor::zeros({2}, DType::i32), true); }) ==
             "Variable: only floating-point tensors have gradients, not i32 [2]");
}

BOOST_AUTO_TEST_CASE(a_number_over_a_scalar_is_a_scalar) {
  for (DType dtype : {DType::f32, DType::f64}) {
    const Variable quotient = 3 / Variable(here(Tensor::full({}, -4, dtype)));
    BOOST_TEST(quotient.describe() == fmt::format("{} []", name(dtype)));
    BOOST_TEST(quotient.item() == -0.75);
  }
}

BOOST_AUTO_TEST_CASE(gradients_where_there_is_no_derivative_are_the_documented_ones) {
  for (DType dtype : {DType::f32, DType::f64}) {
    const std::int64_t n = 19;  // a vector and a part of one
    auto input = [&](double x) { return Variable(here(Tensor::full({n}, x, dtype)), true); };
    auto gradients = [&](const Variable& y, const std::vector<Variable>& x) {
      std::vector<double> of_each;
      for (const Variable& g : grad(sum(y), x)) {
        const std::vector<double> values = g.value().to_vector<double>();
        BOOST_TEST(values == std::vector<double>(values.size(), values[0]), boost::test_tools::per_element());
        of_each.push_back(values[0]);
      }
      return of_each;
    };
    auto is = [&](const std::vector<double>& found, const std::vector<double>& expected) {
      BOOST_TEST(found == expected, boost::test_tools::per_element());
    };
    for (double zero : {0.0, -0.0}) {
      const Variable x = input(zero);
      is(gradients(abs(x), {x}), {0});
      is(gradients(relu(x), {x}), {0});
      is(gradients(sqrt(x) * Variable(here(Tensor::zeros({n}, dtype))), {x}), {0});
      BOOST_TEST(std::isinf(gradients(sqrt(x), {x})[0]));
    }
    const Variable a = input(3), b = input(3), less = input(2);
    is(gradients(abs(a * -1.0), {a}), {1});
    is(gradients(maximum(a, b), {a, b}), {0.5, 0.5});
    is(gradients(minimum(a, b), {a, b}), {0.5, 0.5});
    is(gradients(maximum(a, less), {a, less}), {1, 0});
    is(gradients(minimum(a, less), {a, less}), {0, 1});
    is(gradients(maximum(a, a), {a}), {1});
    const Variable pair = Variable(here(Tensor::full({2}, 3, dtype)), true);
    is(gradients(maximum_over(pair, 0), {pair}), {0.5});
  }
}

BOOST_AUTO_TEST_CASE(the_second_derivative_of_layer_norm_is_right_for_large_and_for_equal_elements) {
  const Variable gain(here(Tensor::full({4}, 1))), bias(here(Tensor::zeros({4})));
  auto derivatives = [&](double size, double offset, const Variable& of_gain, const Variable& of_bias, DType dtype) {
    Variable x(here(Tensor::of({size + offset, offset - size, 2 * size + offset, offset}, {1, 4}, dtype)), true);
    const Variable direction(here(Tensor::of({1, 2, -1, 3}, {1, 4}, dtype)));
    Variable first = grad(sum(layer_norm(x, of_gain, of_bias) * direction), {x}, {}, {.create_graph = true})[0];
    Variable second = grad(sum(square(first * size)), {x})[0];
    std::vector<double> all = first.value().to_vector<double>(), more = second.value().to_vector<double>();
    for (double& each : all) each *= size;
    for (double& each : more) all.push_back(each * size);
    return all;
  };
  const std::vector<double> expected = derivatives(1e6, 0, cast(gain, DType::f64), cast(bias, DType::f64), DType::f64);
  const std::vector<double> found = derivatives(1e30, 0, gain, bias, DType::f32);
  for (std::size_t k = 0; k < expected.size(); ++k) BOOST_TEST(std::abs(found[k] - expected[k]) < 1e-4);
  for (double each : derivatives(0, 1000.1, gain, bias, DType::f32)) BOOST_TEST(std::isfinite(each));
}

BOOST_AUTO_TEST_SUITE_END()
