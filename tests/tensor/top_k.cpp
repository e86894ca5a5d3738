#include "tensor/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <boost/test/unit_test.hpp>

#include "tensor/random.h"

using namespace fovea;

BOOST_AUTO_TEST_SUITE(top_k_of_rows)

BOOST_AUTO_TEST_CASE(the_largest_come_first_and_equal_ones_in_order) {
  Generator generator(1);
  for (DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n : {1, 3, 17, 64, 130, 1000})
      for (std::int64_t k : {std::int64_t{1}, std::min<std::int64_t>(n, 7), n}) {
        Tensor x = Tensor::empty({5, n}, dtype);
        fill_uniform(x, generator, 0, 20);
        std::vector<double> values = x.to_vector<double>();
        for (double& value : values) value = std::floor(value);  // many are equal
        x = Tensor::from(values, {5, n}).to(dtype);
        TopK best = top_k(x, k);
        for (std::int64_t row = 0; row < 5; ++row) {
          std::vector<std::int32_t> order(static_cast<std::size_t>(n));
          std::iota(order.begin(), order.end(), 0);
          auto value = [&](std::int32_t j) { return values[static_cast<std::size_t>(row * n + j)]; };
          std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return value(a) > value(b); });
          for (std::int64_t j = 0; j < k; ++j) {
            std::int32_t expected = order[static_cast<std::size_t>(j)];
            BOOST_REQUIRE(best.index.data<std::int32_t>()[row * k + j] == expected);
            BOOST_REQUIRE(best.values.select(0, row).select(0, j).item() == value(expected));
          }
        }
      }
}

BOOST_AUTO_TEST_CASE(infinities_and_nan) {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> values(200, -inf);
  values[3] = std::nan("");
  values[150] = -5;
  values[170] = inf;
  TopK best = top_k(Tensor::from(values, {200}), 3);
  BOOST_TEST(best.values.to_vector<double>() == (std::vector<double>{inf, -5, -inf}), boost::test_tools::per_element());
  BOOST_TEST(best.index.data<std::int32_t>()[0] == 170);
  BOOST_TEST(best.index.data<std::int32_t>()[1] == 150);
  BOOST_CHECK_THROW(top_k(Tensor::zeros({2, 3}), 4), Error);
  BOOST_CHECK_THROW(top_k(Tensor::zeros({2, 3}), 0), Error);
}

BOOST_AUTO_TEST_SUITE_END()
