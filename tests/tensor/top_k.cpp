#include "tensor/top_k.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "tensor/kernels.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

BOOST_AUTO_TEST_SUITE(top_k_of_rows)

BOOST_AUTO_TEST_CASE(the_largest_come_first_and_equal_ones_in_order) {
  for (DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n : {1, 3, 17, 64, 130, 1000})
      for (std::int64_t k : {std::int64_t{1}, std::min<std::int64_t>(n, 7), (n + 1) / 2, n}) {
        Tensor x = random_integers({5, n}, 20, dtype);  // many are equal
        std::vector<double> values = x.to_vector<double>();
        TopK best = top_k(x, k);
        std::vector<double> best_values = best.values.to_vector<double>();
        std::vector<std::int32_t> best_index = best.index.to_vector<std::int32_t>();
        for (std::int64_t row = 0; row < 5; ++row) {
          std::vector<std::int32_t> order(static_cast<std::size_t>(n));
          std::iota(order.begin(), order.end(), 0);
          auto value = [&](std::int32_t j) { return values[static_cast<std::size_t>(row * n + j)]; };
          std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return value(a) > value(b); });
          for (std::int64_t j = 0; j < k; ++j) {
            std::int32_t expected = order[static_cast<std::size_t>(j)];
            const auto place = static_cast<std::size_t>(row * k + j);
            BOOST_REQUIRE(best_index[place] == expected);
            BOOST_REQUIRE(best_values[place] == value(expected));
          }
        }
      }
}

BOOST_AUTO_TEST_CASE(infinities_and_nan) {
  std::vector<double> values(300, -INFINITY);
  values[3] = NAN;
  values[150] = -5;
  values[170] = INFINITY;
  std::vector<std::int32_t> order{170, 150};
  for (std::int32_t j = 0; j < 300; ++j)
    if (j != 170 && j != 150) order.push_back(j);
  for (std::int64_t k : {3, 300}) {
    TopK best = top_k(here(Tensor::from(values, {300})), k);
    check_close(best.values.slice(0, 0, 3), {INFINITY, -5, -INFINITY}, 0, "values");
    BOOST_TEST(best.values.to_vector<double>().back() == -INFINITY);
    BOOST_TEST(best.index.to_vector<std::int32_t>() == std::vector<std::int32_t>(order.begin(), order.begin() + k),
               boost::test_tools::per_element());
  }

  // Of a whole row, NaN is in order among the infinities that it counts as, and 0 and -0 are equal.
  Tensor whole = here(Tensor::of({-INFINITY, NAN, -0.0, 0, -INFINITY, NAN, INFINITY, 0}, {8}));
  TopK best = top_k(whole, 8);
  check_close(best.values, {INFINITY, 0, 0, 0, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, 0, "values");
  BOOST_TEST(best.index.to_vector<std::int32_t>() == (std::vector<std::int32_t>{6, 2, 3, 7, 0, 1, 4, 5}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(layouts_and_threads_do_not_matter) {
  Tensor x = random_integers({3, 5, 300}, 50, DType::f32);
  TopK expected = top_k(x, 9);
  for (const Tensor& same : layouts(x)) {
    TopK best = top_k(same, 9);
    BOOST_TEST(same_bits(best.values, expected.values));
    BOOST_TEST(same_bits(best.index, expected.index));
  }
  check_threads_do_not_matter([&] {
    TopK best = top_k(x, 9);
    return std::vector<Tensor>{best.values, best.index};
  });
  BOOST_TEST(top_k(here(Tensor::empty({0, 3})), 2).values.shape().str() == "[0, 2]");
}

BOOST_AUTO_TEST_CASE(a_large_k_takes_about_the_time_of_sorting) {
  constexpr std::int64_t n = 1 << 16;
  const Tensor x = Tensor::arange(n);  // every element is larger than all before it
  std::vector<float> numbers = x.to_vector<float>();
  const auto& time = kernels(Device::cpu).time;
  const double sorting = time([&] { std::sort(numbers.begin(), numbers.end(), std::greater<float>()); });
  const auto once = [&] { return time([&] { top_k(x, n / 2); }); };
  BOOST_TEST(std::min({once(), once(), once()}) < 100 * sorting);  // a quadratic one: 2000
}

// The search gives up where elements move too often, and the row is sorted.
BOOST_AUTO_TEST_CASE(an_ascending_row_gives_the_largest_too_with_equal_ones_and_nan_in_order) {
  constexpr std::int64_t n = 3000;
  std::vector<float> row;
  for (std::int64_t j = 0; j < n; ++j) row.push_back(j % 7 == 3 ? NAN : static_cast<float>(j / 3));
  auto value = [&](std::int32_t j) { return std::isnan(row[std::size_t(j)]) ? -INFINITY : row[std::size_t(j)]; };
  std::vector<std::int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return value(a) > value(b); });
  for (std::int64_t k : {1, 8, 9, 64, 255, 1024, 2800, 3000}) {
    const TopK best = top_k(here(Tensor::from(row, {1, n})), k);
    const std::vector<std::int32_t> index = best.index.to_vector<std::int32_t>();
    BOOST_TEST(std::equal(index.begin(), index.end(), order.begin()), k);
    const std::vector<float> values = best.values.to_vector<float>();
    for (std::size_t j = 0; j < values.size(); ++j) BOOST_TEST(values[j] == value(order[j]));
  }
}

BOOST_AUTO_TEST_CASE(as_many_as_a_row_has_are_asked_for) {
  Tensor x = here(Tensor::zeros({2, 3}));
  BOOST_CHECK_THROW(top_k(x, 4), Error);
  BOOST_CHECK_THROW(top_k(x, 0), Error);
}

BOOST_AUTO_TEST_CASE(rows_that_an_i32_index_cannot_number_are_refused) {
  check_fails_with(
      [&] {
        top_k(here(Tensor::zeros({1})).expand({1, std::int64_t{1} << 31}), 1);
      },
      "top_k: a row of f32 [1, 2147483648] has 2147483648 elements; the index, i32, can number 2147483647");
}

BOOST_AUTO_TEST_SUITE_END()
