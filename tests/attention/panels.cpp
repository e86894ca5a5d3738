// The CPU's products with panels.
#include "attention/engine/cpu/panels.h"

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "tests/tensor/kernel_cases.h"

using namespace fovea;

BOOST_AUTO_TEST_SUITE(products_with_panels, *cpu_only())

namespace {

std::mt19937_64& generator() {
  static std::mt19937_64 engine(20261122);
  return engine;
}

std::int64_t any_up_to(std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(1, most)(generator()); }

template <class T>
std::vector<T> random_numbers(std::int64_t count) {
  std::normal_distribution<double> normal(0.3, 1);
  std::vector<T> numbers(static_cast<std::size_t>(count));
  for (T& x : numbers) x = static_cast<T>(normal(generator()));
  return numbers;
}

/// [rows, columns] one way or the other; in one of three its elements lie apart.
template <class T>
struct Matrix {
  Matrix(std::int64_t rows, std::int64_t columns) {
    const std::int64_t step = any_up_to(3) == 1 ? 2 : 1;
    const bool turned = any_up_to(2) == 1;
    numbers = random_numbers<T>(step * (rows + 3) * (columns + 5));
    view = turned ? MatrixView<T>{numbers.data(), step, step * (rows + 3)}
                  : MatrixView<T>{numbers.data(), step * (columns + 5), step};
  }
  MatrixView<const T> read() const { return {view.data, view.row_stride, view.column_stride}; }
  std::vector<T> numbers;
  MatrixView<T> view;
};

template <class T>
double as_multiplied(T x, Precision precision) {
  const bool rounds = std::is_same_v<T, float> && precision == Precision::bf16;
  return rounds ? static_cast<float>(bf16(static_cast<float>(x))) : static_cast<double>(x);
}

/// Checks a product of matrices with random sizes and strides, over a random part of the inner dimension and of the
/// columns. Elements of a and b outside of the inner part are NaN, so that a product that reads them fails.
template <class T>
void check_random_product(Precision precision, double tolerance) {
  const std::int64_t m = any_up_to(40), k = any_up_to(300), n = any_up_to(150);
  const std::int64_t k_begin = any_up_to(k) / 2 * 2 % k, k_end = k_begin + any_up_to(k - k_begin),
                     n_begin = any_up_to(n) - 1, n_end = n_begin + any_up_to(n - n_begin);
  const T alpha = T(-0.7), beta = any_up_to(2) == 1 ? T(0) : T(0.6), nan = std::numeric_limits<T>::quiet_NaN();
  Matrix<T> a(m, k), b(k, n), c(m, n);
  c.view = {c.numbers.data(), n + 5, 1};
  const std::vector<T> before = c.numbers;
  for (std::int64_t p = 0; p < k; ++p)
    if (p < k_begin || p >= k_end) {
      for (std::int64_t i = 0; i < m; ++i) *a.view.at(i, p) = nan;
      for (std::int64_t j = 0; j < n; ++j) *b.view.at(p, j) = nan;
    }
  std::vector<T> memory(static_cast<std::size_t>(Panels<T>::size(k, n)), nan);
  const auto copied = std::make_unique<bool[]>(static_cast<std::size_t>(Panels<T>::blocks(k, n)));
  const Panels<T> panels(b.read(), k, n, memory.data(), copied.get(), precision);
  panels.multiply(m, alpha, a.read(), beta, c.view, {k_begin, k_end, n_begin, n_end});

  double largest = 0;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = n_begin; j < n_end; ++j) {
      double sum = 0, scale = 1;
      for (std::int64_t p = k_begin; p < k_end; ++p) {
        const double term = as_multiplied(*a.view.at(i, p), precision) * as_multiplied(*b.view.at(p, j), precision);
        sum += term;
        scale += std::abs(term);
      }
      const double expected =
          alpha * sum + (beta == 0 ? 0 : double(beta * before[static_cast<std::size_t>(i * (n + 5) + j)]));
      const double difference = std::abs(*c.view.at(i, j) - expected) / scale;
      largest = difference <= largest ? largest : difference;  // a NaN stays
    }
  BOOST_TEST(largest < tolerance, "[" << m << ", " << k << "] [" << k << ", " << n << "], rows " << k_begin << " to "
                                      << k_end << ", columns " << n_begin << " to " << n_end << ": " << largest);
  for (std::int64_t i = 0; i < m; ++i)  // a panel beside the part may be computed, but not what is beside the matrix
    for (std::int64_t j = n; j < n + 5; ++j)
      BOOST_TEST(c.numbers[static_cast<std::size_t>(i * (n + 5) + j)] ==
                 before[static_cast<std::size_t>(i * (n + 5) + j)]);
}

}  // namespace

BOOST_AUTO_TEST_CASE(of_any_part_equal_a_sum_of_products) {
  for (int k = 0; k < 300; ++k) {
    check_random_product<float>(Precision::f32, 1e-6);
    check_random_product<double>(k % 2 ? Precision::f32 : Precision::bf16, 1e-14);  // f64 is never rounded
  }
}

BOOST_AUTO_TEST_CASE(in_bf16_equal_a_sum_of_products_of_rounded_numbers) {
  for (int k = 0; k < 600; ++k) check_random_product<float>(Precision::bf16, 1e-6);
}

namespace {

/// Multiplies parts one after the other, with all of b copied before and with only what the parts reach: the results
/// have the same bits, and nothing is copied that no part reaches.
template <class T>
void check_copied_blocks(Precision precision) {
  const std::int64_t m = any_up_to(20), k = any_up_to(300), n = any_up_to(200);
  const Matrix<T> a(m, k), b(k, n);
  const auto size = static_cast<std::size_t>(Panels<T>::size(k, n));
  std::vector<T> at_once(size), on_demand(size, std::numeric_limits<T>::quiet_NaN());
  const auto flags = static_cast<std::size_t>(Panels<T>::blocks(k, n));
  const auto all = std::make_unique<bool[]>(flags), some = std::make_unique<bool[]>(flags);
  RowsAhead ahead;
  const Panels<T> whole(b.read(), k, n, at_once.data(), all.get(), precision),
      reached(b.read(), k, n, on_demand.data(), some.get(), precision, &ahead);
  std::vector<T> complete(static_cast<std::size_t>(m * n));
  whole.multiply(m, T(1), a.read(), 0, {complete.data(), n, 1});
  for (int part = 0; part < 3; ++part) {
    const std::int64_t k_begin = any_up_to(k) / 2 * 2 % k,
                       k_end = k_begin + any_up_to(std::min<std::int64_t>(40, k - k_begin)), n_begin = any_up_to(n) - 1,
                       n_end = n_begin + any_up_to(std::min<std::int64_t>(30, n - n_begin));
    std::vector<T> expected(static_cast<std::size_t>(m * n)), c = expected;
    whole.multiply(m, T(0.9), a.read(), 0, {expected.data(), n, 1}, {k_begin, k_end, n_begin, n_end});
    reached.multiply(m, T(0.9), a.read(), 0, {c.data(), n, 1}, {k_begin, k_end, n_begin, n_end});
    BOOST_TEST((c == expected), "[" << k << ", " << n << "], rows " << k_begin << " to " << k_end << ", columns "
                                    << n_begin << " to " << n_end);
    if (part > 0) continue;
    std::int64_t packed = 0;  // blocks of 64 rows, panels of up to three vectors: one more of each at both ends
    for (T x : on_demand) packed += std::isnan(x) ? 0 : 1;
    BOOST_TEST(packed > 0);
    BOOST_TEST(packed <= (k_end - k_begin + 2 * 64) * (n_end - n_begin + 2 * 3 * Vec<T>::lanes));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(are_packed_as_far_as_they_are_reached) {
  for (int turn = 0; turn < 200; ++turn) {
    check_copied_blocks<float>(Precision::f32);
    check_copied_blocks<float>(Precision::bf16);
    check_copied_blocks<double>(Precision::f32);
  }
}

BOOST_AUTO_TEST_CASE(pairs_are_rounded_to_nearest_even_and_keep_what_is_no_number) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> numbers{1.00390625f, 1.01171875f, -1.00390625f, 3.0e38f, infinity, -infinity, 0.0f, -0.0f};
  numbers.resize(2 * Vec<float>::lanes, -2.7182817f);
  Bf16Pair pairs[Vec<float>::lanes];
  neighbours_as_bf16_pairs(Vec<float>::load(numbers.data()), Vec<float>::load(&numbers[Vec<float>::lanes]))
      .store(pairs);
  for (std::size_t k = 0; k < std::size(pairs); ++k)
    BOOST_TEST(pairs[k] == (bf16(numbers[2 * k]).bits | Bf16Pair{bf16(numbers[2 * k + 1]).bits} << 16), "pair " << k);
  const Vec<float> nan(std::numeric_limits<float>::quiet_NaN());
  bf16_pairs(nan, Vec<float>(1.0f)).store(pairs);
  BOOST_TEST(std::isnan(std::bit_cast<float>(pairs[0] << 16)));
  BOOST_TEST(std::bit_cast<float>(pairs[0] & 0xffff0000u) == 1.0f);
}

BOOST_AUTO_TEST_SUITE_END()
