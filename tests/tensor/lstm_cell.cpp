#include "autograd/operations/lstm_cell.h"

#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

struct Naive {
  std::vector<double> hidden, cell;
};

/// gates [B, 4 n], previous [B, n], both flat.
Naive naive(const std::vector<double>& gates, const std::vector<double>& previous, std::size_t B, std::size_t n) {
  Naive out;
  for (std::size_t b = 0; b < B; ++b)
    for (std::size_t j = 0; j < n; ++j) {
      auto gate = [&](std::size_t k) { return gates[(4 * b + k) * n + j]; };
      double cell = sigmoid_of(gate(1)) * previous[b * n + j] + sigmoid_of(gate(0)) * std::tanh(gate(2));
      out.cell.push_back(cell);
      out.hidden.push_back(sigmoid_of(gate(3)) * std::tanh(cell));
    }
  return out;
}

double loss(const Naive& results, const std::vector<double>& g_hidden, const std::vector<double>& g_cell) {
  double total = 0;
  for (std::size_t i = 0; i < g_hidden.size(); ++i)
    total += results.hidden[i] * g_hidden[i] + results.cell[i] * g_cell[i];
  return total;
}

/// The gradient of the loss compute(x) with respect to `x`, by central differences.
template <class Compute>
std::vector<double> differences(std::vector<double> x, Compute&& compute) {
  constexpr double step = 1e-5;
  std::vector<double> out;
  for (double& value : x) {
    double before = value;
    value = before + step;
    double above = compute(x);
    value = before - step;
    out.push_back((above - compute(x)) / (2 * step));
    value = before;
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lstm_cell_kernels)

BOOST_AUTO_TEST_CASE(a_step_is_that_of_a_naive_loop) {
  for (std::int64_t n : {1, 3, 17, 130})
    for (DType dtype : {DType::f32, DType::f64})
      for (const Tensor& gates : layouts(random_tensor({5, 4 * n}, dtype, -4, 4)))
        for (const Tensor& previous : layouts(random_tensor({5, n}, dtype, -2, 2))) {
          Naive expected =
              naive(gates.to_vector<double>(), previous.to_vector<double>(), 5, static_cast<std::size_t>(n));
          LstmCellResult result = lstm_cell(gates, previous);
          check_close(result.hidden, expected.hidden, tolerance_of(dtype), gates.describe());
          check_close(result.cell, expected.cell, tolerance_of(dtype), gates.describe());
        }
}

BOOST_AUTO_TEST_CASE(gradients_are_those_of_differences) {
  for (std::int64_t n : {1, 3, 17}) {
    Tensor gates = random_tensor({3, 4 * n}, DType::f64, -2, 2), previous = random_tensor({3, n}, DType::f64, -2, 2);
    LstmCellResult result = lstm_cell(gates, previous);
    std::vector<double> gate = gates.to_vector<double>(), before = previous.to_vector<double>();
    for (const Tensor& g : layouts(random_tensor({3, n}, DType::f64, -1, 1, 1))) {
      Tensor g_cell = random_tensor({3, n}, DType::f64, -1, 1, 2);
      std::vector<double> on_hidden = g.to_vector<double>(), on_cell = g_cell.to_vector<double>();
      LstmCellGradients gradients = lstm_cell_backward(g, g_cell, result.activations, previous, result.cell);
      check_close(gradients.gates,
                  differences(gate,
                              [&](auto& x) {
                                return loss(naive(x, before, 3, static_cast<std::size_t>(n)), on_hidden, on_cell);
                              }),
                  1e-8, "gates");
      check_close(gradients.previous_cell,
                  differences(before,
                              [&](auto& x) {
                                return loss(naive(gate, x, 3, static_cast<std::size_t>(n)), on_hidden, on_cell);
                              }),
                  1e-8, "previous cell");
    }
  }
}

BOOST_AUTO_TEST_CASE(saturated_gates_stay_finite) {
  Tensor gates = here(Tensor::of({1e4, -1e4, 1e4, -1e4}, {1, 4}, DType::f32)), previous = here(Tensor::full({1, 1}, 3));
  LstmCellResult result = lstm_cell(gates, previous);
  check_close(result.cell, {1}, 0, "cell");
  check_close(result.hidden, {0}, 0, "hidden");
}

BOOST_AUTO_TEST_CASE(no_rows_are_fine) {
  BOOST_TEST(lstm_cell(here(Tensor::empty({0, 8})), here(Tensor::empty({0, 2}))).cell.shape().str() == "[0, 2]");
}

BOOST_AUTO_TEST_CASE(wrong_shapes_are_named) {
  check_fails_with(
      [] {
        lstm_cell(here(Tensor::zeros({3, 8})), here(Tensor::zeros({3, 3})));
      },
      fmt::format(
          "lstm_cell: the gates, f32 [3, 8] on {0}, must be f32 [B, 4n], beside the cell f32 or f64 [B, n], here f32 "
          "[3, 3] on {0}",
          name(test_device())));
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter_and_repetition_allocates_nothing) {
  Tensor gates = random_tensor({67, 4 * 33}, DType::f32), previous = random_tensor({67, 33}, DType::f32);
  auto compute = [&] {
    LstmCellResult result = lstm_cell(gates, previous);
    LstmCellGradients gradients =
        lstm_cell_backward(result.hidden, result.cell, result.activations, previous, result.cell);
    return std::vector<Tensor>{result.hidden, result.cell, gradients.gates, gradients.previous_cell};
  };
  check_threads_do_not_matter(compute);
  check_steady(compute);
}

BOOST_AUTO_TEST_SUITE_END()
