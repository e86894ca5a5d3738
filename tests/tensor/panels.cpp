// The CPU's products with panels.
#include "tensor/cpu/panels.h"

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "tensor/cpu/matrix_unit.h"
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

/// Random sizes, strides, parts of the sum and of the columns; what no product may read or write is NaN.
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
  Panels<T> panels(memory.data(), k, n, precision);
  panels.pack(b.read());
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

/// What the instructions of a matrix unit do, as their documentation says it.
class ImitatedUnit {
 public:
  void set(const UnitTiles& tiles) {
    tiles_ = tiles;
    for (auto& tile : memory_) tile.assign(16 * 16, 0xffffffffu);  // NaN
  }
  template <int tile>
  void clear() {
    for_numbers(tile, [&](int i, int j) { at(tile, i, j) = 0; });
  }
  template <int tile>
  void load(const Bf16Pair* from, std::int64_t stride) {
    for_numbers(tile, [&](int i, int j) { at(tile, i, j) = from[i * stride / 4 + j]; });
  }
  template <int sum, int a, int b>
  void add_products() {
    BOOST_REQUIRE(tiles_.rows[sum] == tiles_.rows[a]);
    BOOST_REQUIRE(tiles_.row_bytes[a] == tiles_.rows[b] * 4);
    BOOST_REQUIRE(tiles_.row_bytes[b] == tiles_.row_bytes[sum]);
    for_numbers(sum, [&](int i, int j) {
      float total = std::bit_cast<float>(at(sum, i, j));
      for (int p = 0; p < tiles_.rows[b]; ++p)
        for (int half : {0, 16})
          total += std::bit_cast<float>(at(a, i, p) >> half << 16) * std::bit_cast<float>(at(b, p, j) >> half << 16);
      at(sum, i, j) = std::bit_cast<std::uint32_t>(total);
    });
  }
  template <int tile>
  void store(float* to, std::int64_t stride) {
    for_numbers(tile, [&](int i, int j) { to[i * stride / 4 + j] = std::bit_cast<float>(at(tile, i, j)); });
  }

 private:
  template <class Body>
  void for_numbers(int tile, Body&& body) {
    BOOST_REQUIRE(tiles_.palette == 1);
    BOOST_REQUIRE((tiles_.rows[tile] > 0 && tiles_.rows[tile] <= 16 && tiles_.row_bytes[tile] <= 64));
    for (int i = 0; i < tiles_.rows[tile]; ++i)
      for (int j = 0; j < tiles_.row_bytes[tile] / 4; ++j) body(i, j);
  }
  std::uint32_t& at(int tile, int i, int j) {
    return memory_[static_cast<std::size_t>(tile)][static_cast<std::size_t>(i * 16 + j)];
  }

  UnitTiles tiles_;
  std::vector<std::uint32_t> memory_[8];
};

}  // namespace

BOOST_AUTO_TEST_CASE(in_a_matrix_unit_equal_those_in_vectors) {
  constexpr std::int64_t lanes = 16;
  ImitatedUnit unit;
  for (int turn = 0; turn < 200; ++turn) {
    const std::int64_t m = any_up_to(16), k = any_up_to(70), n = any_up_to(48), vectors = (n + lanes - 1) / lanes;
    auto pairs = [&](std::int64_t count) {
      std::vector<float> numbers = random_numbers<float>(2 * count);
      std::vector<Bf16Pair> all;
      for (std::int64_t p = 0; p < count; ++p)
        all.push_back(
            bf16_pair(numbers[static_cast<std::size_t>(2 * p)], numbers[static_cast<std::size_t>(2 * p + 1)]));
      return all;
    };
    const std::vector<Bf16Pair> a = pairs(m * (k + 3)), b = pairs(k * (vectors * lanes + 2));
    std::vector<float> c = random_numbers<float>(m * (n + 1)), expected = c;
    const float alpha = 0.7f, beta = any_up_to(2) == 1 ? 0.0f : -0.4f;
    UnitProduct::multiply(unit,
                          RegisterTile<float, Bf16Pair>{k, a.data(), k + 3, 1, b.data(), vectors * lanes + 2, c.data(),
                                                        n + 1, static_cast<int>(n), alpha, beta},
                          static_cast<int>(m));
    double largest = 0;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j <= n; ++j) {
        const auto at = static_cast<std::size_t>(i * (n + 1) + j);
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
          for (int half : {0, 16})
            sum +=
                double(std::bit_cast<float>(a[static_cast<std::size_t>(i * (k + 3) + p)] >> half << 16)) *
                double(std::bit_cast<float>(b[static_cast<std::size_t>(p * (vectors * lanes + 2) + j)] >> half << 16));
        const double right = j == n ? expected[at] : alpha * sum + (beta == 0 ? 0 : double(beta * expected[at]));
        const double difference = std::abs(c[at] - right);
        largest = difference <= largest ? largest : difference;
      }
    BOOST_TEST(largest < 1e-4, "[" << m << ", " << 2 * k << "] [" << 2 * k << ", " << n << "]: " << largest);
  }
}

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

/// Parts of a product one after the other, by what is packed on demand and by what is packed at once: the same bits,
/// and nothing is packed that no part reaches.
template <class T>
void check_packing_on_demand(Precision precision) {
  const std::int64_t m = any_up_to(20), k = any_up_to(300), n = any_up_to(200);
  const Matrix<T> a(m, k), b(k, n);
  const auto size = static_cast<std::size_t>(Panels<T>::size(k, n));
  std::vector<T> at_once(size), on_demand(size, std::numeric_limits<T>::quiet_NaN());
  const auto packed_blocks = std::make_unique<bool[]>(static_cast<std::size_t>(Panels<T>::blocks(k, n)));
  RowsAhead ahead;
  Panels<T> whole(at_once.data(), k, n, precision), reached(on_demand.data(), k, n, precision, &ahead);
  whole.pack(b.read());
  reached.pack_on_demand(b.read(), packed_blocks.get());
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
    check_packing_on_demand<float>(Precision::f32);
    check_packing_on_demand<float>(Precision::bf16);
    check_packing_on_demand<double>(Precision::f32);
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
    BOOST_TEST(pairs[k] == bf16_pair(numbers[2 * k], numbers[2 * k + 1]), "pair " << k);
  const Vec<float> nan(std::numeric_limits<float>::quiet_NaN());
  bf16_pairs(nan, Vec<float>(1.0f)).store(pairs);
  BOOST_TEST(std::isnan(std::bit_cast<float>(pairs[0] << 16)));
  BOOST_TEST(std::bit_cast<float>(pairs[0] & 0xffff0000u) == 1.0f);
}

BOOST_AUTO_TEST_SUITE_END()
