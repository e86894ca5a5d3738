#include "autograd/operations/cross_entropy.h"

#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

struct Naive {
  std::vector<double> loss, gradient;
};

Naive naive(const Tensor& logits, const Tensor& targets, const Tensor& g, double smoothing, std::int64_t ignored) {
  std::vector<double> z = logits.to_vector<double>(), upstream = g.to_vector<double>();
  std::vector<std::int64_t> target = targets.to_vector<std::int64_t>();
  Naive out;
  std::size_t V = static_cast<std::size_t>(logits.size(1));
  for (std::size_t row = 0; row < target.size(); ++row) {
    const double* first = z.data() + row * V;
    double most = *std::max_element(first, first + V), total = 0, loss = 0;
    for (std::size_t v = 0; v < V; ++v) total += std::exp(first[v] - most);
    for (std::size_t v = 0; v < V; ++v) {
      double share = smoothing / static_cast<double>(V);
      if (static_cast<std::int64_t>(v) == target[row]) share += 1 - smoothing;
      double log_p = first[v] - most - std::log(total);
      if (share != 0) loss -= share * log_p;
      out.gradient.push_back(target[row] == ignored ? 0 : upstream[row] * (std::exp(log_p) - share));
    }
    out.loss.push_back(target[row] == ignored ? 0 : loss);
  }
  return out;
}

void check(const Tensor& logits, const Tensor& targets, const Tensor& g, double smoothing, double tolerance) {
  Naive expected = naive(logits, targets, g, smoothing, 2);
  CrossEntropyResult result = cross_entropy(logits, targets, smoothing, 2);
  std::string what = logits.describe() + " smoothing " + std::to_string(smoothing);
  check_close(result.loss, expected.loss, tolerance, what);
  check_close(cross_entropy_backward(g, logits, targets, result.log_sum_exp, smoothing, 2), expected.gradient,
              tolerance, what);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cross_entropy_kernels)

BOOST_AUTO_TEST_CASE(losses_and_gradients_are_those_of_a_naive_loop) {
  for (std::int64_t V : by_device(std::vector{3, 17, 130, 2048, 5000}, {3, 17, 130, 1100}))
    for (DType dtype : {DType::f32, DType::f64})
      for (double smoothing : {0.0, 0.1, 1.0})
        for (const Tensor& logits : layouts(random_tensor({7, V}, dtype, -5, 5)))
          for (DType index : {DType::i32, DType::i64})
            check(logits, random_integers({7}, V, index), random_tensor({7}, dtype, 0.5, 2), smoothing,
                  2 * tolerance_of(dtype));
}

BOOST_AUTO_TEST_CASE(one_gradient_for_all_rows_may_be_broadcast) {
  check(random_tensor({5, 17}), random_integers({5}, 17), random_tensor({1}).expand({5}), 0.1, 1e-12);
}

BOOST_AUTO_TEST_CASE(huge_logits_cost_no_digits) {
  for (std::int64_t V : {17, 5000}) {
    Tensor targets = random_integers({9}, V), ones = here(Tensor::full({9}, 1));
    // Three rivals near the maximum of each row, so that the gradient is not one-hot.
    Tensor logits = changed(random_tensor({9, V}, DType::f32, -1e4, 1e4), [&](std::vector<double>& values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        if (std::size_t v = i % static_cast<std::size_t>(V); v < 3) values[i] = 1e4 + static_cast<double>(v) * 0.5;
    });
    check(logits, targets, ones, 0, 1e-6);
    check(logits, targets, ones, 0.1, 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(the_largest_logit_may_come_in_any_block) {
  for (std::int64_t at : {0, 2047, 2048, 4999}) {
    Tensor logits = with_element(random_tensor({1, 5000}, DType::f32), at, 60);
    check(logits, here(Tensor::of({4}, {1}, DType::i64)), here(Tensor::full({1}, 1)), 0.1, 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(excluded_classes_have_no_gradient_and_spoil_nothing) {
  Tensor logits = with_element(random_tensor({2, 17}, DType::f32), 7, -INFINITY),
         targets = here(Tensor::of({4, 5}, {2}, DType::i64));
  CrossEntropyResult result = cross_entropy(logits, targets, 0, -100);
  Tensor gradient = cross_entropy_backward(here(Tensor::full({2}, 1)), logits, targets, result.log_sum_exp, 0, -100);
  BOOST_TEST(std::isfinite(result.loss.to_vector<double>()[0]));
  BOOST_TEST(gradient.to_vector<float>()[7] == 0);
}

BOOST_AUTO_TEST_CASE(a_nan_reaches_its_loss_only) {
  for (std::int64_t at : {0, 16}) {
    Tensor logits = with_element(random_tensor({2, 17}, DType::f32), at, NAN),
           targets = here(Tensor::of({4, 5}, {2}, DType::i64));
    auto loss = cross_entropy(logits, targets, 0, -100).loss.to_vector<double>();
    BOOST_TEST(std::isnan(loss[0]));
    BOOST_TEST(!std::isnan(loss[1]));
  }
}

BOOST_AUTO_TEST_CASE(no_rows_are_fine_and_wrong_ones_are_named) {
  Tensor no_logits = here(Tensor::empty({0, 5})), no_targets = here(Tensor::empty({0}, DType::i64));
  BOOST_TEST(cross_entropy(no_logits, no_targets, 0, -100).loss.elements() == 0);
  Tensor logits = random_tensor({4, 5});
  check_fails_with(
      [&] {
        cross_entropy(logits, here(Tensor::of({0, -100, 4, 5}, {4}, DType::i64)), 0, -100).loss.to(Device::cpu);
      },
      "cross_entropy: the target at [3] of [4] is 5; it must be in 0 to 4, or -100 to be ignored");
  check_fails_with(
      [&] { cross_entropy(logits, here(Tensor::zeros({3}, DType::i64)), 0, -100); },
      fmt::format("cross_entropy: the targets, i64 [3] on {0}, must be i32 or i64 [N], beside the logits f32 or f64 "
                  "[N, V], here f64 [4, 5] on {0}",
                  name(test_device())));
  check_fails_with([&] { cross_entropy(logits, here(Tensor::zeros({4})), 0, -100); },
                   "cross_entropy: an index is i32 or i64, not f32");
  check_fails_with([&] { cross_entropy(logits, here(Tensor::zeros({4}, DType::i64)), 1.5, -100); },
                   "label smoothing is 1.5; it must be in [0, 1]");
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter_and_repetition_allocates_nothing) {
  const std::int64_t N = by_device(301, 31);
  Tensor logits = random_tensor({N, 333}, DType::f32), targets = random_integers({N}, 333);
  auto compute = [&] {
    CrossEntropyResult result = cross_entropy(logits, targets, 0.1, 2);
    return std::vector<Tensor>{result.loss,
                               cross_entropy_backward(result.loss, logits, targets, result.log_sum_exp, 0.1, 2)};
  };
  check_threads_do_not_matter(compute);
  check_steady(compute);
}

BOOST_AUTO_TEST_SUITE_END()
