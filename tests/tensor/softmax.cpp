#include "autograd/operations/softmax.h"

#include "tensor/reduce.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

struct NaiveRows {
  std::vector<double> weights, log_weights, log_totals;
};

/// Row by row in f64, the mask (empty: all) already spelt out.
NaiveRows naive(const Tensor& logits, const std::vector<double>& allow) {
  std::vector<double> z = logits.to_vector<double>();
  std::size_t n = static_cast<std::size_t>(logits.size(-1));
  NaiveRows out;
  for (std::size_t row = 0; row < z.size(); row += n) {
    double most = -INFINITY, total = 0;
    for (std::size_t j = row; j < row + n; ++j) {
      if (!allow.empty() && allow[j] == 0) z[j] = -INFINITY;
      most = std::max(most, z[j]);
    }
    for (std::size_t j = row; j < row + n; ++j) total += z[j] == -INFINITY ? 0 : std::exp(z[j] - most);
    out.log_totals.push_back(total == 0 ? INFINITY : most + std::log(total));
    for (std::size_t j = row; j < row + n; ++j) {
      out.weights.push_back(z[j] == -INFINITY ? 0 : std::exp(z[j] - most) / total);
      out.log_weights.push_back(z[j] == -INFINITY ? -INFINITY : z[j] - out.log_totals.back());
    }
  }
  return out;
}

std::vector<double> naive_backward(const Tensor& y, const Tensor& g) {
  std::vector<double> weight = y.to_vector<double>(), upstream = g.to_vector<double>(), out;
  std::size_t n = static_cast<std::size_t>(y.size(-1));
  for (std::size_t i = 0; i < weight.size(); ++i) {
    double sum = 0;
    for (std::size_t j = i / n * n; j < i / n * n + n; ++j) sum += weight[j] * upstream[j];
    out.push_back(weight[i] * (upstream[i] - sum));
  }
  return out;
}

Tensor random_mask(const Shape& shape, DType dtype, unsigned salt = 1) {
  return random_integers(shape, 2, dtype, salt);
}

const std::vector<std::int64_t> row_lengths =
    by_device(std::vector<std::int64_t>{1, 3, 4, 7, 8, 12, 17, 32, 33, 60, 64, 65, 130, 200}, {1, 3, 17, 33, 130, 257});

/// Sparsemax by sorting each row (Martins and Astudillo 2016, algorithm 1); the mask as for naive().
std::vector<double> naive_sparsemax(const Tensor& logits, const std::vector<double>& allow) {
  std::vector<double> z = logits.to_vector<double>();
  const auto n = static_cast<std::size_t>(logits.size(-1));
  for (std::size_t row = 0; row < z.size(); row += n) {
    for (std::size_t j = row; j < row + n; ++j)
      if (!allow.empty() && allow[j] == 0) z[j] = -INFINITY;
    std::vector<double> sorted(z.begin() + static_cast<long>(row), z.begin() + static_cast<long>(row + n));
    std::sort(sorted.rbegin(), sorted.rend());
    double sum = 0, threshold = INFINITY;
    for (std::size_t k = 0; k < n; ++k) {
      sum += sorted[k];
      if (1 + static_cast<double>(k + 1) * sorted[k] > sum) threshold = (sum - 1) / static_cast<double>(k + 1);
    }
    for (std::size_t j = row; j < row + n; ++j) z[j] = std::max(z[j] - threshold, 0.0);
  }
  return z;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(softmax_kernels)

BOOST_AUTO_TEST_CASE(weights_and_their_logarithms_are_those_of_a_naive_loop) {
  for (std::int64_t n : row_lengths)
    for (DType dtype : {DType::f32, DType::f64})
      for (const Tensor& z : layouts(random_tensor({2, 3, n}, dtype, -5, 5))) {
        NaiveRows expected = naive(z, {});
        std::string what = z.describe() + " strides " + z.strides().str();
        check_close(softmax(z), expected.weights, tolerance_of(dtype), what);
        check_close(log_softmax(z), expected.log_weights, tolerance_of(dtype), what);
        check_close(log_sum_exp(z), expected.log_totals, tolerance_of(dtype), what);
        BOOST_TEST(log_sum_exp(z).shape().str() == "[2, 3]");
      }
}

BOOST_AUTO_TEST_CASE(masks_of_every_shape_and_type_apply) {
  for (std::int64_t n : by_device(row_lengths, {3, 130}))
    for (DType dtype : {DType::f32, DType::f64}) {
      Tensor z = random_tensor({2, 3, 5, n}, dtype, -5, 5);
      for (const Shape& shape :
           {Shape{2, 1, 1, n}, Shape{1, 1, 5, n}, Shape{2, 1, 5, n}, Shape{2, 3, 5, n}, Shape{n}, Shape{2, 1, 5, 1}})
        for (DType mask_type : {DType::boolean, DType::u8})
          for (const Tensor& allow : layouts(random_mask(shape, mask_type))) {
            NaiveRows expected = naive(z, allow.expand(z.shape()).to_vector<double>());
            std::string what = z.describe() + " masked by " + allow.describe();
            check_close(softmax(z, allow), expected.weights, tolerance_of(dtype), what);
            check_close(log_sum_exp(z, allow), expected.log_totals, tolerance_of(dtype), what);
          }
    }
}

BOOST_AUTO_TEST_CASE(what_is_not_allowed_weighs_exactly_nothing_whatever_it_holds) {
  for (std::int64_t n : row_lengths)
    for (float intruder : {NAN, INFINITY, 3e38F}) {
      Tensor allow = random_mask({3, n}, DType::boolean);
      std::vector<double> allowed = allow.to_vector<double>();
      Tensor z = changed(random_tensor({3, n}, DType::f32), [&](std::vector<double>& values) {
        for (std::size_t i = 0; i < values.size(); ++i)
          if (allowed[i] == 0) values[i] = intruder;
      });
      Tensor weights = softmax(z, allow);
      check_close(weights, naive(z, allowed).weights, 2e-6, z.describe());
      std::vector<double> weight = weights.to_vector<double>();
      for (std::size_t i = 0; i < weight.size(); ++i) BOOST_TEST((allowed[i] != 0 || weight[i] == 0));
    }
}

BOOST_AUTO_TEST_CASE(a_row_with_nothing_allowed_is_zero_and_has_no_gradient) {
  for (std::int64_t n : row_lengths)
    for (DType dtype : {DType::f32, DType::f64}) {
      std::vector<double> zeros(static_cast<std::size_t>(2 * n), 0);
      Tensor z = random_tensor({2, n}, dtype), none = here(Tensor::zeros({1, n}, DType::boolean));
      Tensor weights = softmax(z, none);
      check_close(weights, zeros, 0, "masked");
      check_close(softmax(here(Tensor::full({2, n}, -INFINITY, dtype))), zeros, 0, "minus infinity");
      check_close(log_sum_exp(z, none), {INFINITY, INFINITY}, 0, "log_sum_exp");
      check_close(softmax_backward(weights, here(Tensor::full({2, n}, INFINITY, dtype))), zeros, 0, "gradient");
    }
}

BOOST_AUTO_TEST_CASE(huge_logits_neither_overflow_nor_lose_their_order) {
  for (std::int64_t n : {3, 17, 130})
    for (DType dtype : {DType::f32, DType::f64}) {
      Tensor z = random_tensor({3, n}, dtype, -1e4, 1e4);
      NaiveRows expected = naive(z, {});
      check_close(softmax(z), expected.weights, tolerance_of(dtype), "weights");
      check_close(log_softmax(z), expected.log_weights, tolerance_of(dtype), "logarithms");
    }
}

BOOST_AUTO_TEST_CASE(an_allowed_nan_makes_its_row_nan) {
  for (std::int64_t n : row_lengths)
    for (std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
      Tensor z = with_element(random_tensor({2, n}, DType::f32), at, NAN);
      std::vector<double> weights = softmax(z).to_vector<double>(), logs = log_softmax(z).to_vector<double>();
      for (std::size_t j = 0; j < static_cast<std::size_t>(2 * n); ++j) {
        BOOST_TEST(std::isnan(weights[j]) == (j < static_cast<std::size_t>(n)));
        BOOST_TEST(std::isnan(logs[j]) == (j < static_cast<std::size_t>(n)));
      }
    }
  Tensor all = softmax(here(Tensor::full({1, 3}, NAN)));
  BOOST_TEST(std::isnan(all.to_vector<double>()[0]));

  // Elements that are not allowed weigh nothing, whatever else is in the row.
  for (std::int64_t n : row_lengths)
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor z = with_element(with_element(random_tensor({3, n}, dtype), n - 1, -INFINITY), 0, NAN);
      const Tensor allow = with_element(random_mask({3, n}, DType::boolean), 0, 1);
      const std::vector<double> logits = z.to_vector<double>(), allowed = allow.to_vector<double>();
      const std::vector<double> weights = softmax(z, allow).to_vector<double>();
      for (std::size_t j = 0; j < weights.size(); ++j)
        if (allowed[j] == 0 || logits[j] == -INFINITY)
          BOOST_TEST(weights[j] == 0);
        else
          BOOST_TEST(std::isnan(weights[j]) == (j < static_cast<std::size_t>(n)));
    }
}

BOOST_AUTO_TEST_CASE(sparsemax_is_the_projection_onto_the_simplex) {
  for (std::int64_t n : {1, 3, 17, 64, 130, 513})
    for (DType dtype : {DType::f32, DType::f64})
      for (double spread : {0.01, 1.0, 30.0})
        for (const Tensor& z : layouts(random_tensor({2, 3, n}, dtype, -spread, spread))) {
          Tensor allow = random_mask({2, 1, n}, DType::boolean);
          check_close(sparsemax(z), naive_sparsemax(z, {}), 4 * tolerance_of(dtype), z.describe());
          check_close(sparsemax(z, allow), naive_sparsemax(z, allow.expand(z.shape()).to_vector<double>()),
                      4 * tolerance_of(dtype), z.describe() + " masked");
        }
}

BOOST_AUTO_TEST_CASE(sparsemax_of_rows_without_numbers_is_zero_and_shows_every_nan) {
  const double inf = INFINITY;
  Tensor z = here(Tensor::of({1, NAN, 0.5, -inf, -inf, -inf, 2, NAN, 1}, {3, 3}));
  check_close(sparsemax(z), {NAN, NAN, NAN, 0, 0, 0, NAN, NAN, NAN}, 0, "all");
  check_close(sparsemax(z, here(Tensor::of({1, 0, 1}, {3}, DType::boolean))), {0.75, 0, 0.25, 0, 0, 0, 1, 0, 0}, 1e-15,
              "without the second");
  check_close(sparsemax(z, here(Tensor::zeros({3}, DType::boolean))), std::vector<double>(9, 0), 0, "nothing");
  check_close(sparsemax(here(Tensor::of({1e300, 0, inf, 0}, {2, 2}))), {1, 0, NAN, 0}, 0, "huge");
}

BOOST_AUTO_TEST_CASE(gradients_are_those_of_a_naive_loop) {
  for (std::int64_t n : row_lengths)
    for (DType dtype : {DType::f32, DType::f64}) {
      Tensor z = random_tensor({2, 3, n}, dtype, -3, 3);
      Tensor y = softmax(z, random_mask({3, n}, DType::boolean));
      for (const Tensor& g : layouts(random_tensor({2, 3, n}, dtype, -1, 1, 1)))
        check_close(softmax_backward(y, g), naive_backward(y, g), tolerance_of(dtype), g.describe());
      Tensor ones = here(Tensor::full({1}, 1, dtype)).expand({2, 3, n});
      check_close(softmax_backward(y, ones), naive_backward(y, ones), tolerance_of(dtype), "expanded");
    }
}

BOOST_AUTO_TEST_CASE(what_arrives_where_the_weight_is_zero_changes_nothing) {
  for (std::int64_t n : row_lengths) {
    Tensor z = random_tensor({3, n}, DType::f32), allow = random_mask({3, n}, DType::boolean);
    Tensor y = softmax(z, allow), g = random_tensor({3, n}, DType::f32, -1, 1, 1);
    std::vector<double> expected = naive_backward(y, g);
    std::vector<double> allowed = allow.to_vector<double>();
    Tensor with_intruders = changed(g, [&](std::vector<double>& values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        if (allowed[i] == 0) values[i] = i % 2 ? NAN : INFINITY;
    });
    check_close(softmax_backward(y, with_intruders), expected, 2e-6, y.describe());
  }
}

BOOST_AUTO_TEST_CASE(empty_tensors_are_fine) {
  BOOST_TEST(softmax(here(Tensor::empty({3, 0}))).shape().str() == "[3, 0]");
  BOOST_TEST(softmax(here(Tensor::empty({0, 3})), here(Tensor::empty({0, 1}, DType::boolean))).shape().str() ==
             "[0, 3]");
  check_close(log_sum_exp(here(Tensor::empty({2, 0}))), {INFINITY, INFINITY}, 0, "nothing");
}

BOOST_AUTO_TEST_CASE(wrong_masks_and_types_are_named) {
  Tensor z = random_tensor({2, 5});
  check_fails_with(
      [&] { softmax(z, here(Tensor::zeros({5}))); },
      fmt::format("softmax: the mask, f32 [5] on {0}, must be bool or u8 [*], beside the logits f32 or f64 [..., n], "
                  "here f64 [2, 5] on {0}",
                  name(test_device())));
  check_fails_with(
      [&] {
        softmax(z, here(Tensor::zeros({4, 2, 5}, DType::u8)));
      },
      "softmax: the mask u8 [4, 2, 5] does not broadcast to the logits, f64 [2, 5]");
  check_fails_with([&] { softmax(random_integers({2, 5}, 3)); }, "softmax: computes in f32 or f64");
  check_fails_with(
      [&] {
        softmax_backward(z, random_tensor({2, 4}));
      },
      "softmax_backward: the gradient, f64 [2, 4] on ");
  check_fails_with(
      [&] { softmax(here(Tensor::of({1}, {}))); },
      "softmax: the logits, f64 [] on " + std::string(name(test_device())) + ", must be f32 or f64 [..., n]");
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter_and_repetition_allocates_nothing) {
  const std::int64_t B = by_device(37, 2);
  Tensor z = random_tensor({B, 4, 33, 31}, DType::f32), allow = random_mask({B, 1, 1, 31}, DType::boolean);
  auto compute = [&] {
    Tensor y = softmax(z, allow);
    return std::vector<Tensor>{y, softmax_backward(y, z), log_softmax(z), log_sum_exp(z, allow)};
  };
  check_threads_do_not_matter(compute);
  check_steady(compute);
}

BOOST_AUTO_TEST_SUITE_END()
