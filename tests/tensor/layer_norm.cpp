#include "autograd/operations/layer_norm.h"

#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"
#include "tensor/random.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

constexpr double epsilon = 1e-5;

struct Naive {
  std::vector<double> output, mean, inverse, d_x, d_gain, d_bias;
};

Naive naive(const Tensor& x, const Tensor& gain, const Tensor& bias, const Tensor& g) {
  std::vector<double> in = x.to_vector<double>(), scale = gain.to_vector<double>(), shift = bias.to_vector<double>(),
                      upstream = g.to_vector<double>();
  std::size_t n = scale.size();
  Naive out;
  out.d_gain.assign(n, 0), out.d_bias.assign(n, 0);
  for (std::size_t row = 0; row < in.size(); row += n) {
    double mean = 0, variance = 0, h_mean = 0, h_product = 0;
    for (std::size_t j = 0; j < n; ++j) mean += in[row + j] / static_cast<double>(n);
    for (std::size_t j = 0; j < n; ++j) variance += std::pow(in[row + j] - mean, 2) / static_cast<double>(n);
    double inverse = 1 / std::sqrt(variance + epsilon);
    auto normal = [&](std::size_t j) { return (in[row + j] - mean) * inverse; };
    for (std::size_t j = 0; j < n; ++j) {
      out.output.push_back(normal(j) * scale[j] + shift[j]);
      h_mean += upstream[row + j] * scale[j] / static_cast<double>(n);
      h_product += upstream[row + j] * scale[j] * normal(j) / static_cast<double>(n);
      out.d_gain[j] += upstream[row + j] * normal(j);
      out.d_bias[j] += upstream[row + j];
    }
    for (std::size_t j = 0; j < n; ++j)
      out.d_x.push_back(inverse * (upstream[row + j] * scale[j] - h_mean - normal(j) * h_product));
    out.mean.push_back(mean);
    out.inverse.push_back(inverse);
  }
  return out;
}

void check(const Tensor& x, const Tensor& g, const Tensor& gain, const Tensor& bias, double tolerance) {
  Naive expected = naive(x, gain, bias, g);
  LayerNormResult result = layer_norm(x, gain, bias, epsilon);
  std::string what = x.describe() + " strides " + x.strides().str();
  check_close(result.output, expected.output, tolerance, what);
  check_close(result.mean, expected.mean, tolerance, what);
  check_close(result.inverse_deviation, expected.inverse, tolerance, what);
  LayerNormGradients gradients = layer_norm_backward(g, x, gain, result.mean, result.inverse_deviation);
  check_close(gradients.x, expected.d_x, tolerance, what + " dx");
  check_close(gradients.gain, expected.d_gain, tolerance, what + " dgain");
  check_close(gradients.bias, expected.d_bias, tolerance, what + " dbias");

  const LayerNormGradients with_sum =
      layer_norm_backward(g, x, gain, result.mean, result.inverse_deviation, result.output);
  check_close(with_sum.x, map(Add{}, gradients.x, result.output).to_vector<double>(), tolerance, what + " dx + y");
  check_close(with_sum.gain, gradients.gain.to_vector<double>(), 0, what + " dgain");
  check_close(with_sum.bias, gradients.bias.to_vector<double>(), 0, what + " dbias");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(layer_norm_kernels)

BOOST_AUTO_TEST_CASE(output_statistics_and_gradients_are_those_of_a_naive_loop) {
  for (std::int64_t n : {3, 8, 17, 64, 130})
    for (DType dtype : {DType::f32, DType::f64}) {
      Tensor gain = random_tensor({n}, dtype, 0.5, 2, 1), bias = random_tensor({n}, dtype, -1, 1, 2);
      std::vector<Tensor> inputs = layouts(random_tensor({3, 7, n}, dtype, -1, 2)),
                          upstreams = layouts(random_tensor({3, 7, n}, dtype, -1, 1, 3));
      upstreams.push_back(random_tensor({n}, dtype, -1, 1, 4).expand({3, 7, n}));
      for (const Tensor& x : inputs) check(x, upstreams[0], gain, bias, 20 * tolerance_of(dtype));
      for (const Tensor& g : upstreams) check(inputs[0], g, gain, bias, 20 * tolerance_of(dtype));
    }
}

BOOST_AUTO_TEST_CASE(many_rows_add_up_to_exact_parameter_gradients) {
  const Shape shape{by_device(5000, 300), 17};
  Tensor x = random_tensor(shape, DType::f32, -1, 2), g = random_tensor(shape, DType::f32, 0, 1, 1);
  check(x, g, here(Tensor::full({17}, 1.5)), here(Tensor::zeros({17})), 2e-5);
}

BOOST_AUTO_TEST_CASE(a_large_mean_costs_no_digits) {
  Tensor small = random_tensor({3, 64}, DType::f64);
  Tensor gain = here(Tensor::full({64}, 1)), bias = here(Tensor::zeros({64}));
  Tensor x = changed(small, [](std::vector<double>& values) {
    for (double& value : values) value = std::round(value * 1024) / 1024 + 2048;
  });
  Naive expected = naive(x, gain, bias, small);
  check_close(layer_norm(x.to(DType::f32), gain, bias, epsilon).output, expected.output, 1e-3, "mean 2048");
}

BOOST_AUTO_TEST_CASE(rows_of_equal_elements_normalise_to_the_bias_exactly) {
  for (std::int64_t n : {3, 7, 17, 130, 1000, 5000})
    for (double value : {1000.1, 100.1, -0.3, 1e-20, 1.1e30, 3e38}) {
      const Tensor x = here(Tensor::full({2, n}, value)), gain = here(Tensor::full({n}, 3)),
                   bias = here(Tensor::full({n}, 0.5)), g = random_tensor({2, n}, DType::f32);
      const LayerNormResult result = layer_norm(x, gain, bias, epsilon);
      const std::string what = fmt::format("{} equal elements, {}", n, value);
      check_close(result.output, std::vector<double>(static_cast<std::size_t>(2 * n), 0.5), 0, what);
      const LayerNormGradients gradients = layer_norm_backward(g, x, gain, result.mean, result.inverse_deviation);
      check_close(gradients.gain, std::vector<double>(static_cast<std::size_t>(n), 0), 0, what);
    }
}

BOOST_AUTO_TEST_CASE(elements_of_any_size_are_normalised) {
  const std::vector<double> row{1, -1, 2, 0, 0.25, -3, 0.5};
  const Tensor bias = here(Tensor::zeros({7}, DType::f64)), gain = here(Tensor::full({7}, 2, DType::f64)),
               unit = here(Tensor::from(row, {1, 7})), g = random_tensor({1, 7});
  const LayerNormResult expected = layer_norm(unit, gain, bias, 0);
  const LayerNormGradients gradient = layer_norm_backward(g, unit, gain, expected.mean, expected.inverse_deviation);
  for (DType dtype : {DType::f32, DType::f64})
    for (double size : dtype == DType::f32 ? std::vector{1e-37, 1e-30, 1e-12, 1e12, 1e30, 1.1e38}
                                           : std::vector{1e-307, 1e-200, 1e30, 1e200, 5e307}) {
      const Tensor x = changed(unit, [&](std::vector<double>& values) {
                         for (double& v : values) v *= size;
                       }).to(dtype);
      const LayerNormResult result = layer_norm(x, gain.to(dtype), bias.to(dtype), 0);
      const std::string what = fmt::format("{} of size {}", name(dtype), size);
      check_close(result.output, expected.output.to_vector<double>(), 10 * tolerance_of(dtype), what);
      const LayerNormGradients found =
          layer_norm_backward(g.to(dtype), x, gain.to(dtype), result.mean, result.inverse_deviation);
      std::vector<double> of_x = found.x.to_vector<double>(), wanted = gradient.x.to_vector<double>();
      if (size > 1e-37)  // the gradient with respect to x is as large as x is small, and may overflow
        for (std::size_t j = 0; j < row.size(); ++j)
          BOOST_TEST(std::abs(of_x[j] * size - wanted[j]) < 1e3 * tolerance_of(dtype), what);
      check_close(found.gain, gradient.gain.to_vector<double>(), 10 * tolerance_of(dtype), what + ", gain");
    }
}

BOOST_AUTO_TEST_CASE(a_row_with_nan_or_infinity_is_nan) {
  const Tensor one = here(Tensor::full({3}, 1));
  for (double bad : {NAN, INFINITY, -INFINITY})
    for (double size : {1.0, 1e30})
      for (double y : layer_norm(here(Tensor::of({size, bad, -size}, {1, 3}, DType::f32)), one, one, epsilon)
                          .output.to_vector<double>())
        BOOST_TEST(std::isnan(y));
}

BOOST_AUTO_TEST_CASE(a_single_element_normalises_to_the_bias) {
  Tensor x = random_tensor({4, 1}, DType::f32);
  Tensor gain = here(Tensor::full({1}, 3)), bias = here(Tensor::full({1}, 0.5));
  check_close(layer_norm(x, gain, bias, epsilon).output, {0.5, 0.5, 0.5, 0.5}, 0, "n = 1");
}

BOOST_AUTO_TEST_CASE(no_rows_are_fine) {
  Tensor x = here(Tensor::empty({0, 5})), gain = here(Tensor::full({5}, 1));
  LayerNormResult result = layer_norm(x, gain, gain, epsilon);
  LayerNormGradients gradients = layer_norm_backward(x, x, gain, result.mean, result.inverse_deviation);
  check_close(gradients.gain, {0, 0, 0, 0, 0}, 0, "gain");
  BOOST_TEST(gradients.x.shape().str() == "[0, 5]");
}

BOOST_AUTO_TEST_CASE(wrong_parameters_are_named) {
  Tensor x = random_tensor({3, 5}, DType::f32), five = here(Tensor::zeros({5})), four = here(Tensor::zeros({4}));
  check_fails_with(
      [&] { layer_norm(x, four, five, epsilon); },
      fmt::format("layer_norm: the gain, f32 [4] on {0}, must be f32 [n], beside x f32 or f64 [..., n], here f32 "
                  "[3, 5] on {0}",
                  name(test_device())));
  check_fails_with([&] { layer_norm(x, five, {}, epsilon); }, "layer_norm: the bias, undefined, must be f32 [n]");
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter_and_repetition_allocates_nothing) {
  Tensor x = random_tensor({by_device(1001, 31), 130}, DType::f32), gain = random_tensor({130}, DType::f32);
  auto compute = [&] {
    LayerNormResult result = layer_norm(x, gain, gain, epsilon);
    LayerNormGradients gradients = layer_norm_backward(x, x, gain, result.mean, result.inverse_deviation);
    return std::vector<Tensor>{result.output, gradients.x, gradients.gain, gradients.bias};
  };
  check_threads_do_not_matter(compute);
  check_steady(compute);
}

/// Whether two tensors have the same bits; on a GPU the compiler may round products in sums differently.
void check_alike(const Tensor& found, const Tensor& expected, const std::string& what) {
  check_close(found, expected.to_vector<double>(), test_device() == Device::cpu ? 0 : 1e-5, what);
}

BOOST_AUTO_TEST_CASE(add_norm_is_dropout_an_addition_and_layer_norm) {
  for (DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n : {1, 3, 17, 64, 128, 130, 600, 4200})
      for (double probability : {0.0, 0.3})
        for (bool has_number : {false, true}) {
          const std::string what = fmt::format("{} n = {}, dropout {}", name(dtype), n, probability);
          auto random = [&](const Shape& shape, unsigned salt) { return random_tensor(shape, dtype, -1, 2, salt); };
          const Tensor update = random({n, 5, 2}, 1).transpose(0, 2), residual = random({2, 5, n}, 2),
                       number = has_number ? random({5, 2}, 3).transpose(0, 1) : Tensor(), gain = random({n}, 4),
                       bias = random({n}, 5), g = random({2, 5, n}, 6), added = random({2, 5, n}, 7);
          const DropoutMask mask(probability, {.seed = 8, .offset = 3, .stream = 9});
          const AddNormResult both = add_norm(update, residual, number, mask, gain, bias, epsilon);
          const Tensor moved = has_number ? map(Add{}, update, number.unsqueeze(-1)) : update;
          check_alike(both.sum, dropout_add(moved, residual, mask), what + " sum");
          const LayerNormResult norm = layer_norm(both.sum, gain, bias, epsilon);
          check_alike(both.norm.output, norm.output, what + " norm");
          check_alike(both.norm.mean, norm.mean, what + " mean");
          check_alike(both.norm.inverse_deviation, norm.inverse_deviation, what + " inverse");
          for (const Tensor& more : {Tensor(), added}) {
            auto gradients = [&](const DropoutMask* with) {
              return layer_norm_backward(g, both.sum, gain, norm.mean, norm.inverse_deviation, more, with);
            };
            const LayerNormGradients plain = gradients(nullptr), dropping = gradients(&mask);
            check_alike(dropping.x, plain.x, what + " dx");
            check_alike(dropping.gain, plain.gain, what + " dgain");
            check_alike(dropping.bias, plain.bias, what + " dbias");
            check_alike(dropping.dropped, dropout(dropping.x, mask), what + " dupdate");
          }
        }
}

BOOST_AUTO_TEST_CASE(add_norm_drops_what_is_not_finite_and_adds_the_number_of_a_row_to_its_own_elements) {
  const Tensor bad = here(Tensor::full({2, 200}, std::numeric_limits<double>::infinity())),
               zero = here(Tensor::zeros({2, 200})), gain = here(Tensor::full({200}, 1)),
               number = here(Tensor::of({0, std::numeric_limits<double>::quiet_NaN()}, {2}, DType::f32));
  const DropoutMask mask(0.5, {1});
  const std::vector<double> kept = dropout(here(Tensor::full({2, 200}, 1)), mask).to_vector<double>(),
                            sum = add_norm(bad, zero, {}, mask, gain, gain, epsilon).sum.to_vector<double>();
  for (std::size_t k = 0; k < sum.size(); ++k) BOOST_TEST((kept[k] == 0 ? sum[k] == 0 : std::isinf(sum[k])));
  const std::vector<double> with_nan = add_norm(zero, zero, number, mask, gain, gain, epsilon).sum.to_vector<double>();
  for (std::size_t k = 0; k < with_nan.size(); ++k) BOOST_TEST(std::isnan(with_nan[k]) == (k >= 200 && kept[k] != 0));
}

BOOST_AUTO_TEST_CASE(add_norm_refuses_operands_that_differ) {
  const Tensor x = here(Tensor::zeros({3, 5})), four = here(Tensor::zeros({4})), five = here(Tensor::zeros({5}));
  const DropoutMask mask(0.5, {1}), rows(0.5, {1}, 5);
  check_fails_with([&] { add_norm(x, five, {}, mask, five, five, epsilon); }, "add_norm: the residual, f32 [5] on ");
  check_fails_with([&] { add_norm(x, x, four, mask, five, five, epsilon); },
                   "add_norm: the numbers of the rows, f32 [4] on ");
  check_fails_with([&] { add_norm(x, x, {}, rows, five, five, epsilon); },
                   "add_norm: the dropout mask has rows of 5; it must have one row");
}

BOOST_AUTO_TEST_SUITE_END()
