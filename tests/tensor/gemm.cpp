#include "tensor/gemm.h"

#include "tensor/cpu/onednn_gemm.h"
#include "tensor/cpu/packing.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"
#include "tensor/reduce.h"
#include "tests/refusal.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

BOOST_AUTO_TEST_SUITE(gemm_of_tensors)

namespace {

std::mt19937_64& generator() {
  static std::mt19937_64 engine(20240607);
  return engine;
}

std::int64_t any_of(std::initializer_list<std::int64_t> values) {
  return values.begin()[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(generator())];
}

bool coin() { return any_of({0, 1}) == 1; }

Tensor random(const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  std::normal_distribution<double> normal(0.3, 1);
  for (double& x : values) x = normal(generator());
  return here(Tensor::from(values, shape).to(dtype));
}

/// Random values in a view of `shape` that is contiguous, transposed, a slice of something larger in either or both of
/// its last dimensions, every other column, or has its batch dimensions behind others in memory.
Tensor random_view(Shape shape, DType dtype) {
  switch (any_of({0, 1, 2, 3, 4, 5})) {
    case 1: {
      std::swap(shape[-1], shape[-2]);
      return random(shape, dtype).transpose(-1, -2);
    }
    case 2: {
      Shape larger = shape;
      larger[-1] += 3;
      larger[-2] += 2;
      return random(larger, dtype).slice(-1, 2, 2 + shape[-1]).slice(-2, 1, 1 + shape[-2]);
    }
    case 3: {
      Shape larger = shape;
      larger.push_back(2);
      return random(larger, dtype).select(-1, 1);
    }
    case 4: {  // heads split: [B, T, H, D] seen as [B, H, T, D]
      if (shape.rank() < 3) return random(shape, dtype);
      std::swap(shape[-2], shape[-3]);
      return random(shape, dtype).transpose(-2, -3);
    }
    case 5: {
      std::swap(shape[-1], shape[-2]);
      Shape larger = shape;
      larger[-1] += 5;
      return random(larger, dtype).slice(-1, 1, 1 + shape[-1]).transpose(-1, -2);
    }
    default:
      return random(shape, dtype);
  }
}

/// The definition, in f64: one triple loop, batch dimensions by expansion.
Tensor by_definition(const Tensor& a, const Tensor& b, const Tensor& c, double alpha, double beta) {
  auto matrices = [&](const Tensor& x) {
    Shape whole = c.shape();
    whole[-2] = x.size(-2);
    whole[-1] = x.size(-1);
    return x.expand(whole).to_vector<double>();
  };
  auto left = matrices(a), right = matrices(b), out = c.to_vector<double>();
  std::size_t m = static_cast<std::size_t>(c.size(-2)), n = static_cast<std::size_t>(c.size(-1)),
              k = static_cast<std::size_t>(a.size(-1)), batch = m > 0 && n > 0 ? out.size() / (m * n) : 0;
  for (std::size_t x = 0; x < batch; ++x)
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::size_t p = 0; p < k; ++p) sum += left[(x * m + i) * k + p] * right[(x * k + p) * n + j];
        double& to = out[(x * m + i) * n + j];
        to = alpha * sum + (beta == 0 ? 0 : beta * to);
      }
  return here(Tensor::from(out, c.shape()));
}

double largest_difference(const Tensor& x, const Tensor& y) {
  auto one = x.to_vector<double>(), other = y.to_vector<double>();
  BOOST_TEST_REQUIRE(one.size() == other.size());
  double largest = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    double difference = std::abs(one[i] - other[i]);
    largest = difference <= largest ? largest : difference;  // NaN stays
  }
  return largest;
}

/// Rounding errors of a sum of k products of about 1.
double tolerance(DType dtype, std::int64_t k) {
  double unit = dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
  return 8 * unit * static_cast<double>(k + 8) + (dtype == DType::f64 ? 1e-15 : 1e-6);
}

/// c, of views and factors drawn at random, is as defined.
void check(const Shape& a_shape, const Shape& b_shape, const Shape& c_shape, DType dtype) {
  Tensor a = random_view(a_shape, dtype), b = random_view(b_shape, dtype), c = random_view(c_shape, dtype);
  double alpha = coin() ? 1 : -0.7, beta = coin() ? 0 : coin() ? 1 : 0.4;
  Tensor expected = by_definition(a, b, c, alpha, beta);
  gemm(a, b, c, alpha, beta);
  BOOST_TEST_INFO(name(dtype) << ", a " << a_shape.str() << " strides " << a.strides().str() << ", b " << b_shape.str()
                              << " strides " << b.strides().str() << ", c " << c_shape.str() << " strides "
                              << c.strides().str() << ", alpha " << alpha << ", beta " << beta);
  BOOST_TEST(largest_difference(c, expected) <= tolerance(dtype, a_shape[-1]));
}

/// Restores the precision and the number of threads.
struct Settings {
  Precision precision = matmul_precision();
  int threads = omp_get_max_threads();
  ~Settings() {
    set_matmul_precision(precision);
    omp_set_num_threads(threads);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(matrices_of_any_size_and_stride_multiply_as_defined) {
  for (int round = 0; round < by_device(400, 150); ++round) {
    auto size = [] { return any_of({1, 2, 3, 5, 8, 13, 16, 17, 20, 31, 33, 64, 65, 100, 130}); };
    std::int64_t m = size(), n = size(), k = any_of({0, 1, 2, 3, 7, 8, 17, 32, 64, 130, 257, 300});
    check({m, k}, {k, n}, {m, n}, coin() ? DType::f32 : DType::f64);
  }
}

BOOST_AUTO_TEST_CASE(split_heads_take_two_launches_however_many_heads_and_sentences_there_are, *not_on_the_cpu()) {
  auto launches = [] {
    std::uint64_t total = 0;
    for (const LaunchCount& count : kernels(test_device()).launches()) total += count.launches;
    return total;
  };
  for (auto [B, H] : {std::pair<std::int64_t, std::int64_t>(9, 2), {2, 9}, {9, 5}, {3, 3}})
    for (DType dtype : {DType::f32, DType::f64})
      for (double beta : {0.0, 0.5}) {
        const std::int64_t T = 5, D = 3;
        auto heads = [&, B = B, H = H] { return random({B, T, H, D}, dtype).transpose(1, 2); };
        const Tensor query = heads(), key = heads().transpose(2, 3);
        Tensor scores = random({B, H, T, T}, dtype);
        const Tensor expected = by_definition(query, key, scores, 2, beta);
        const std::uint64_t before = launches();
        gemm(query, key, scores, 2, beta);
        BOOST_TEST(launches() - before == 2u);
        BOOST_TEST(largest_difference(scores, expected) < 4 * tolerance(dtype, D));
      }
}

BOOST_AUTO_TEST_CASE(large_matrices_multiply_as_defined) {
  for (DType dtype : {DType::f32, DType::f64}) {
    check({1, 600}, {600, 2100}, {1, 2100}, dtype);
    check({131, 517}, {517, 259}, {131, 259}, dtype);
    check({2, 100}, {100, 1100}, {2, 1100}, dtype);
    check({70, 40}, {40, 2100}, {70, 2100}, dtype);
    check({1500, 70}, {70, 33}, {1500, 33}, dtype);
    check({33, 2000}, {2000, 17}, {33, 17}, dtype);
  }
}

BOOST_AUTO_TEST_CASE(batches_broadcast) {
  for (int round = 0; round < by_device(300, 100); ++round) {
    auto size = [] { return any_of({1, 2, 3, 8, 17, 20, 32, 45}); };
    std::int64_t m = size(), n = size(), k = size();
    Shape a, b, c;
    for (std::int64_t d = any_of({0, 1, 2, 3}); d > 0; --d) {
      std::int64_t whole = any_of({1, 2, 3, 5});
      c.push_back(whole);
      bool in_a = coin();
      if (in_a || a.rank() > 0) a.push_back(in_a ? whole : 1);  // a may have fewer dimensions
      b.push_back(!in_a || coin() ? whole : 1);
    }
    for (auto [shape, rows, columns] : {std::tuple(&a, m, k), {&b, k, n}, {&c, m, n}}) {
      shape->push_back(rows);
      shape->push_back(columns);
    }
    check(a, b, c, coin() ? DType::f32 : DType::f64);
  }
}

BOOST_AUTO_TEST_CASE(expanded_operands_are_read_where_they_lie) {
  Tensor a = random({1, 20, 33}, DType::f32).expand({6, 20, 33}), b = random({33, 1}, DType::f32).expand({6, 33, 40});
  Tensor zero = Tensor::zeros({6, 20, 40});
  BOOST_TEST(largest_difference(matmul(a, b), by_definition(a, b, zero, 1, 0)) < 1e-4);
  Tensor row = random({1, 33}, DType::f32).expand({20, 33});
  BOOST_TEST(largest_difference(matmul(row, b), by_definition(row, b, zero, 1, 0)) < 1e-4);
}

/// A row of a matrix that is wider than 2^31 is a view with such a stride, in which nothing lies so far away.
BOOST_AUTO_TEST_CASE(a_single_row_or_column_may_have_any_stride) {
  for (std::int64_t stride : {std::int64_t{3'000'000'000}, (std::int64_t{1} << 32) + 5}) {
    Tensor row = random({1, 4}, DType::f32).as_strided({1, 4}, {stride, 1});
    Tensor column = random({4, 1}, DType::f32).as_strided({4, 1}, {1, stride});
    BOOST_TEST(largest_difference(matmul(row, column), by_definition(row, column, Tensor::zeros({1, 1}), 1, 0)) < 1e-5);
    BOOST_TEST(largest_difference(matmul(column, row), by_definition(column, row, Tensor::zeros({4, 4}), 1, 0)) < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(activations_times_a_weight_and_its_gradient) {
  Tensor x = random({5, 13, 48}, DType::f32), weight = random({48, 70}, DType::f32),
         g = random({5, 13, 70}, DType::f32);
  Tensor y = matmul(x, weight);
  BOOST_TEST(largest_difference(y, by_definition(x, weight, Tensor::zeros(y.shape()), 1, 0)) < 1e-4);
  Tensor flat_x = x.reshape({65, 48}), flat_g = g.reshape({65, 70});
  Tensor gradient = matmul(flat_x.transpose(0, 1), flat_g);
  BOOST_TEST(largest_difference(gradient,
                                by_definition(flat_x.transpose(0, 1), flat_g, Tensor::zeros({48, 70}), 1, 0)) < 1e-4);
  // One step of decoding: a slice of one time step of each sequence.
  Tensor step = x.slice(1, 4, 5);
  BOOST_TEST(largest_difference(matmul(step, weight), by_definition(step, weight, Tensor::zeros({5, 1, 70}), 1, 0)) <
             1e-4);
}

BOOST_AUTO_TEST_CASE(beta_zero_does_not_read_c) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : {DType::f32, DType::f64})
    for (auto [m, n, k] : {std::tuple(5, 7, 3), {1, 70, 9}, {70, 1, 9}, {130, 130, 300}, {4, 6, 0}}) {
      Tensor c = here(Tensor::full({m, n}, nan, dtype)),
             strided = here(Tensor::full({n, 3, m}, nan, dtype)).select(1, 1);
      Tensor a = random({m, k}, dtype), b = random({k, n}, dtype);
      gemm(a, b, c);
      BOOST_TEST(largest_difference(c, by_definition(a, b, c, 1, 0)) < 1e-3);
      Tensor turned = strided.transpose(0, 1);
      gemm(a, b, turned);
      // cuBLAS may add up the transposed product in another order
      BOOST_TEST((test_device() == Device::cpu ? same_bits(turned, c) : largest_difference(turned, c) < 1e-3));
    }
}

BOOST_AUTO_TEST_CASE(nothing_to_add_up_leaves_beta_c) {
  auto empty = [](const Shape& shape) { return here(Tensor::empty(shape)); };
  Tensor c = here(Tensor::full({3, 4, 5}, 2)), matrix = here(Tensor::zeros({4, 5}));
  gemm(empty({3, 4, 0}), empty({3, 0, 5}), c, 1, -0.5);
  BOOST_TEST(same_bits(c, Tensor::full({3, 4, 5}, -1)));
  BOOST_TEST(matmul(empty({0, 4}), matrix).shape().str() == "[0, 5]");
  BOOST_TEST(matmul(empty({0, 3, 4}), matrix).shape().str() == "[0, 3, 5]");
  BOOST_TEST(matmul(here(Tensor::zeros({2, 3, 4})), empty({4, 0})).shape().str() == "[2, 3, 0]");
}

BOOST_AUTO_TEST_CASE(a_result_may_lie_on_its_operands) {
  for (double beta : {0.0, -0.5}) {
    Tensor a = random({7, 7}, DType::f64), b = random({7, 7}, DType::f64);
    Tensor expected = a.clone(), on_itself = a.clone();
    gemm(a, b, expected, 1.5, beta);
    gemm(on_itself, b, on_itself, 1.5, beta);
    BOOST_TEST(on_itself.to_vector<double>() == expected.to_vector<double>());

    Tensor rows = random({8, 7}, DType::f64), upper = rows.slice(0, 0, 7), lower = rows.slice(0, 1, 8);
    Tensor shifted = lower.clone();
    gemm(a, upper.clone(), shifted, 1, beta);
    gemm(a, upper, lower, 1, beta);
    BOOST_TEST(lower.to_vector<double>() == shifted.to_vector<double>());
  }
}

BOOST_AUTO_TEST_CASE(infinities_and_nan_travel) {
  double inf = std::numeric_limits<double>::infinity();
  Tensor a = here(Tensor::of({1, inf, 2, 0}, {2, 2})), b = here(Tensor::of({1, 2, 3, 0}, {2, 2}));
  auto c = matmul(a, b).to_vector<double>();
  BOOST_TEST(c[0] == inf);
  BOOST_TEST(std::isnan(c[1]));
  BOOST_TEST(c[2] == 2);
}

BOOST_AUTO_TEST_CASE(the_number_of_threads_changes_nothing, *cpu_only()) {
  Settings restored;
  struct Case {
    Shape a, b;
    DType dtype;
  };
  std::vector<Case> cases{{{97, 65}, {65, 131}, DType::f32},        {{40, 700}, {700, 33}, DType::f32},
                          {{17, 20, 33}, {17, 33, 20}, DType::f32}, {{3, 70, 64}, {3, 64, 70}, DType::f32},
                          {{1, 512}, {512, 3001}, DType::f32},      {{3001, 512}, {512, 1}, DType::f32},
                          {{2, 512}, {512, 3001}, DType::f32},      {{5, 33, 300}, {300, 65}, DType::f64},
                          {{301, 300}, {300, 150}, DType::f64},     {{1, 2000}, {2000, 257}, DType::f64},
                          {{19, 2000}, {2000, 33}, DType::f64}};
  for (const auto& [a_shape, b_shape, dtype] : cases)
    for (bool turned : {false, true}) {
      Tensor a = random(a_shape, dtype), b = random(b_shape, dtype);
      if (turned) {  // the same matrices, stored by columns
        a = a.transpose(-1, -2).clone().transpose(-1, -2);
        b = b.transpose(-1, -2).clone().transpose(-1, -2);
      }
      Tensor one_thread;
      for (int threads : {1, 2, 3, 5, 8}) {
        omp_set_num_threads(threads);
        Tensor c = matmul(a, b);
        gemm(a, b, c, 0.3, 0.7);
        if (!one_thread.defined()) one_thread = c;
        BOOST_TEST(same_bits(c, one_thread),
                   threads << " threads, " << a_shape.str() << " times " << b_shape.str() << " turned " << turned);
      }
    }
}

BOOST_AUTO_TEST_CASE(steady_products_ask_the_system_for_nothing, *cpu_only()) {
  Settings restored;
  std::vector<std::pair<Tensor, Tensor>> operands;
  for (DType dtype : {DType::f32, DType::f64}) {
    operands.emplace_back(random({300, 280}, dtype).transpose(0, 1), random({300, 270}, dtype));
    operands.emplace_back(random({40, 20, 31}, dtype), random({40, 20, 31}, dtype).transpose(-1, -2));
  }
  auto step = [&] {
    for (Precision precision : {Precision::f32, Precision::bf16}) {
      set_matmul_precision(precision);
      for (auto& [a, b] : operands) matmul(a, b);
    }
  };
  step();
  auto before = allocator_statistics();
  for (int round = 0; round < 5; ++round) step();
  BOOST_TEST(allocator_statistics().system_allocations == before.system_allocations);
  BOOST_TEST(allocator_statistics().bytes_in_use == before.bytes_in_use);
}

/// cuBLAS itself may round the operands or not: on an H200, small products are those of f32.
bool rounds_every_product() { return test_device() == Device::cpu || kernels_run_on_the_host(); }
auto where_every_product_is_rounded() {
  return skipped_for([] { return std::string(rounds_every_product() ? "" : "cuBLAS need not round"); });
}

BOOST_AUTO_TEST_CASE(bf16_mode_rounds_both_operands_and_sums_in_f32, *where_every_product_is_rounded()) {
  Settings restored;
  set_matmul_precision(Precision::bf16);
  auto rounded = [](const Tensor& x) { return x.to(DType::bf16).to(DType::f64); };
  for (auto [m, n, k] :
       {std::tuple(65, 70, 48), {300, 33, 130}, {512, 64, 64}, {320, 40, 72}, {16, 100, 700}, {64, 17, 16}})
    for (int round = 0; round < 6; ++round) {
      Tensor a = random_view({m, k}, DType::f32), b = random_view({k, n}, DType::f32),
             c = random_view({m, n}, DType::f32);
      double alpha = round < 4 ? 1 : -0.7, beta = round < 2 ? 0 : round < 4 ? 1 : 0.4;
      Tensor expected = by_definition(rounded(a), rounded(b), c, alpha, beta);
      gemm(a, b, c, alpha, beta);
      BOOST_TEST(largest_difference(c, expected) < 4 * tolerance(DType::f32, k));
      if (beta == 0) BOOST_TEST(largest_difference(c, by_definition(a, b, c, alpha, 0)) > 1e-3);  // it did round
    }
}

// The distances that the README promises. u = 2^-8 is the largest relative error of rounding to bf16, so that a product
// of two rounded numbers is off by 2 u at most; sums in f32 add k 2^-23. Of the two, cuBLAS may round or not.
BOOST_AUTO_TEST_CASE(bf16_mode_is_within_one_part_in_128_of_f32_and_large_products_are_those_of_the_cpu) {
  Settings restored;
  struct Case {
    Shape a, b;
    bool is_rounded_on_the_cpu;
  };
  for (const Case& one : std::vector<Case>{{{33, 130}, {130, 20}, true},
                                           {{64, 17}, {17, 48}, true},
                                           {{3, 17, 40}, {40, 18}, true},
                                           {{3, 5}, {5, 7}, false},
                                           {{6, 9, 33}, {6, 33, 4}, false}}) {
    const Tensor a = random(one.a, DType::f32), b = random(one.b, DType::f32);
    const auto k = static_cast<double>(one.a[-1]);
    const Tensor zero = Tensor::zeros(matmul_shape(a, b), DType::f32);
    const auto magnitude = [](const Tensor& x) { return map(Abs{}, x); };
    const std::vector<double> exact = by_definition(a, b, zero, 1, 0).to_vector<double>(),
                              terms = by_definition(magnitude(a), magnitude(b), zero, 1, 0).to_vector<double>();
    set_matmul_precision(Precision::bf16);
    const std::vector<double> tested = matmul(a, b).to_vector<double>(),
                              cpu = matmul(a.to(Device::cpu), b.to(Device::cpu)).to_vector<double>();
    set_matmul_precision(Precision::f32);
    const double of_sums = k / (1 << 23), of_rounding = 1.0 / 128;
    for (std::size_t e = 0; e < exact.size(); ++e) {
      BOOST_TEST(std::abs(tested[e] - exact[e]) <= (of_rounding + of_sums) * terms[e]);
      BOOST_TEST(std::abs(tested[e] - cpu[e]) <=
                 ((one.is_rounded_on_the_cpu && rounds_every_product() ? 0 : of_rounding) + 2 * of_sums) * terms[e]);
    }
  }
}

// Heads of an odd width, side by side in memory, begin at any address.
BOOST_AUTO_TEST_CASE(bf16_mode_multiplies_matrices_at_any_address) {
  Settings restored;
  set_matmul_precision(Precision::bf16);
  const Tensor weights = random({3, 5, 4, 8}, DType::f32),
               values = random({3, 8, 5 * 7}, DType::f32).reshape({3, 8, 5, 7}).transpose(1, 2);
  const Tensor expected = by_definition(weights, values, Tensor::zeros({3, 5, 4, 7}, DType::f32), 1, 0);
  BOOST_TEST(largest_difference(matmul(weights, values), expected) < 0.1);
}

BOOST_AUTO_TEST_CASE(bf16_mode_sees_changes_and_views_of_what_it_has_rounded, *where_every_product_is_rounded()) {
  Settings restored;
  set_matmul_precision(Precision::bf16);
  auto rounded = [](const Tensor& x) { return x.to(DType::bf16).to(DType::f64); };
  auto right = [&](const Tensor& a, const Tensor& b) {
    Tensor zero = Tensor::zeros({a.size(0), b.size(1)}, DType::f32);
    Tensor expected = by_definition(rounded(a), rounded(b), zero, 1, 0);
    return largest_difference(matmul(a, b), expected) < 4 * tolerance(DType::f32, a.size(1));
  };
  Tensor x = random({70, 70}, DType::f32), w = random({70, 40}, DType::f32);
  for (int round = 0; round < 3; ++round) {
    BOOST_TEST(right(x, w));
    BOOST_TEST(right(x.transpose(0, 1), w));
    BOOST_TEST(right(x.slice(0, 20, 70), w));
    BOOST_TEST(right(x.slice(1, 0, 50), w.slice(0, 0, 50)));
    BOOST_TEST(right(x.slice(1, 20, 70), w.slice(0, 20, 70)));
    BOOST_TEST(right(w.transpose(0, 1), x));
    x.copy_from(random({70, 70}, DType::f32));
  }
}

BOOST_AUTO_TEST_CASE(bf16_mode_sees_what_is_written_through_a_pointer, *cpu_only()) {
  Settings restored;
  set_matmul_precision(Precision::bf16);
  Tensor a = random({64, 64}, DType::f32), b = random({64, 64}, DType::f32);
  matmul(a, b);
  for (Tensor* x : {&a, &b}) {
    float* numbers = x->mutable_data<float>();
    for (std::int64_t i = 0; i < x->elements(); ++i) numbers[i] += 1;
    BOOST_TEST(largest_difference(matmul(a, b), matmul(a.clone(), b.clone())) == 0);
  }
}

namespace {

std::vector<Tensor> small_operands(int count) {
  std::vector<Tensor> all;
  for (int k = 0; k < count; ++k) all.push_back(random({16, 16}, DType::f32));
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(bf16_mode_is_as_fast_with_many_operands, *cpu_only()) {
  Settings restored;
  set_matmul_precision(Precision::bf16);
  auto seconds_of_a_product = [](int operands) {
    const std::vector<Tensor> alive = small_operands(operands);
    return kernels(Device::cpu).time([&] {
      for (const Tensor& x : alive) matmul(x, x);
    }) / operands;
  };
  double few = 1, many = 1;  // the shortest of several, because other work on the machine disturbs single ones
  for (int round = 0; round < 5; ++round)
    few = std::min(few, seconds_of_a_product(100)), many = std::min(many, seconds_of_a_product(4000));
  BOOST_TEST(many < 5 * few);
}

// Copies of operands that are gone are released by the products after them.
BOOST_AUTO_TEST_CASE(bf16_mode_forgets_operands_that_are_gone, *cpu_only()) {
  Settings restored;
  set_matmul_precision(Precision::bf16);
  auto multiply = [](int operands) {
    const std::vector<Tensor> alive = small_operands(operands);
    for (const Tensor& x : alive) matmul(x, x);
    return allocator_statistics().bytes_in_use;
  };
  multiply(1000);
  const std::size_t few = multiply(500), many = multiply(4000);
  multiply(500);
  BOOST_TEST(multiply(500) <= few);
  BOOST_TEST(many > 2 * few);
}

BOOST_AUTO_TEST_CASE(bf16_mode_leaves_f64_alone) {
  Settings restored;
  Tensor a = random({50, 60}, DType::f64), b = random({60, 40}, DType::f64), product = matmul(a, b);
  set_matmul_precision(Precision::bf16);
  BOOST_TEST(same_bits(matmul(a, b), product));
}

// On CUDA, the mode is for products of every size.
BOOST_AUTO_TEST_CASE(bf16_mode_leaves_small_batches_alone, *cpu_only()) {
  Settings restored;
  Tensor a = random({7, 20, 32}, DType::f32), b = random({7, 32, 20}, DType::f32), product = matmul(a, b);
  set_matmul_precision(Precision::bf16);
  BOOST_TEST(same_bits(matmul(a, b), product));
}

BOOST_AUTO_TEST_CASE(packing_copies_any_strides_and_fills_up_with_zeros, *cpu_only()) {
  for (int round = 0; round < 60; ++round) {
    std::int64_t rows = any_of({1, 3, 8, 17, 40}), columns = any_of({1, 2, 7, 8, 16, 21, 37}),
                 lanes = Vec<float>::lanes;
    std::int64_t padded = (columns + lanes - 1) / lanes * lanes, width = padded + any_of({0, lanes});
    Tensor x = random_view({rows, columns}, DType::f32);
    std::vector<float> to(static_cast<std::size_t>(rows * width), -1.0f);
    pack(MatrixView<const float>{x.data<float>(), x.strides()[0], x.strides()[1]}, rows, columns, to.data(), width);
    auto values = x.to_vector<float>();
    bool right = true;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        float expected = j < columns ? values[static_cast<std::size_t>(i * columns + j)] : j < padded ? 0.0f : -1.0f;
        right = right && to[static_cast<std::size_t>(i * width + j)] == expected;
      }
    BOOST_TEST(right, rows << " x " << columns << ", strides " << x.strides().str());
  }
}

BOOST_AUTO_TEST_CASE(onednn_and_our_tiles_agree, *cpu_only()) {
  for (int round = 0; round < 40; ++round) {
    std::int64_t m = any_of({8, 17, 64, 130}), n = any_of({9, 33, 128}), k = any_of({1, 20, 65, 300});
    Tensor a = random_view({m, k}, DType::f32), b = random_view({k, n}, DType::f32), c = random({m, n}, DType::f32);
    float alpha = coin() ? 1.0f : -0.7f, beta = coin() ? 0.0f : 0.4f;
    Product<float> product{m, n, k, alpha, beta};
    auto view = [](const Tensor& x) {
      return MatrixView<const float>{x.data<float>(), x.strides()[0], x.strides()[1]};
    };
    MatrixView<float> to{c.mutable_data<float>(), n, 1};
    if (!onednn::takes(product, view(a), view(b), to)) continue;
    Tensor expected = by_definition(a, b, c, alpha, beta);
    onednn::sgemm(product, view(a), view(b), to);
    BOOST_TEST(largest_difference(c, expected) <= tolerance(DType::f32, k));
  }
}

BOOST_AUTO_TEST_CASE(a_product_with_a_bias_is_as_defined) {
  Settings settings;
  for (Precision precision : {Precision::f32, Precision::bf16}) {
    set_matmul_precision(precision);
    for (int round = 0; round < by_device(60, 30); ++round) {
      const DType dtype = coin() ? DType::f32 : DType::f64;
      const std::int64_t m = any_of({0, 1, 2, 17, 64}), n = any_of({1, 3, 16, 65}), k = any_of({0, 1, 5, 16, 130});
      Tensor a = random_view({m, k}, dtype), b = random_view({k, n}, dtype);
      Tensor bias = coin() ? random({n}, dtype) : random({n, 3}, dtype).select(1, 2);
      const Tensor expected = by_definition(a, b, bias.expand({m, n}), 1, 1);
      const double rounding = precision == Precision::bf16 ? 0.02 * std::sqrt(static_cast<double>(k + 8)) : 0;
      BOOST_TEST_INFO(name(dtype) << ", a " << a.shape().str() << " strides " << a.strides().str() << ", b "
                                  << b.shape().str() << " strides " << b.strides().str());
      BOOST_TEST(largest_difference(matmul_plus_bias(a, b, bias), expected) <= tolerance(dtype, k) + rounding);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_product_with_column_sums_is_as_defined) {
  Settings settings;
  for (Precision precision : {Precision::f32, Precision::bf16}) {
    set_matmul_precision(precision);
    for (int round = 0; round < by_device(80, 40); ++round) {
      const DType dtype = coin() ? DType::f32 : DType::f64;
      const std::int64_t m = any_of({1, 2, 17, 64}), n = any_of({1, 3, 16, 65}), k = any_of({0, 1, 5, 16, 130});
      Tensor a = random_view({m, k}, dtype), b = random_view({k, n}, dtype), c = random_view({m, n}, dtype);
      const Tensor product = by_definition(a, b, c, 1, 0);
      const Tensor sums = by_definition(Tensor::full({1, k}, 1, dtype, b.device()), b, Tensor::zeros({1, n}), 1, 0);
      const double rounding = precision == Precision::bf16 ? 0.02 * std::sqrt(static_cast<double>(k + 8)) : 0;
      const Tensor found = gemm_with_column_sums(a, b, c);
      BOOST_TEST_INFO(name(dtype) << ", a " << a.shape().str() << " strides " << a.strides().str() << ", b "
                                  << b.shape().str() << " strides " << b.strides().str() << ", c strides "
                                  << c.strides().str());
      BOOST_TEST(largest_difference(c, product) <= tolerance(dtype, k) + rounding);
      BOOST_TEST(largest_difference(found, sums) <= tolerance(dtype, k) + rounding);
      BOOST_TEST(found.shape() == Shape{n});
    }
  }
}

BOOST_AUTO_TEST_CASE(column_sums_are_those_of_b_although_c_lies_on_it) {
  Tensor a = random({7, 7}, DType::f32), b = random({7, 7}, DType::f32), apart = Tensor::empty_like(b);
  const Tensor sums = gemm_with_column_sums(a, b, apart), on_b = gemm_with_column_sums(a, b, b);
  BOOST_TEST(largest_difference(b, apart) < 1e-5);
  BOOST_TEST(largest_difference(on_b, sums) < 1e-5);
}

BOOST_AUTO_TEST_CASE(products_with_vectors_name_what_does_not_fit) {
  auto zeros = [](const Shape& shape, DType dtype = DType::f32) { return here(Tensor::zeros(shape, dtype)); };
  const Tensor a = zeros({2, 3}), b = zeros({3, 5});
  auto with = [&](const Tensor& bias) { return message_of([&] { matmul_plus_bias(a, b, bias); }); };
  BOOST_TEST(with(zeros({4})) == "matmul_plus_bias: the bias is f32 [4], b is f32 [3, 5]; the bias must be [5]");
  BOOST_TEST(with(zeros({5}, DType::f64)) ==
             fmt::format("matmul_plus_bias: the bias is f64 [5] on {0}, b is f32 [3, 5] on {0}; they must be alike",
                         name(test_device())));
  BOOST_TEST(message_of([&] {
               matmul_plus_bias(zeros({2, 2, 3}), b, zeros({5}));
             }) == "matmul_plus_bias: a is [2, 2, 3], b is [3, 5]; both must be matrices");
  Tensor c = zeros({2, 4});
  BOOST_TEST(message_of([&] { gemm_with_column_sums(a, b, c); }) ==
             "gemm_with_column_sums: c is [2, 4], the product of [2, 3] and [3, 5] is [2, 5]");
}

BOOST_AUTO_TEST_CASE(statistics_count_work_and_time) {
  reset_gemm_statistics();
  Tensor a = random({2, 3, 5}, DType::f32), b = random({5, 7}, DType::f32);
  matmul(a, b);
  matmul(a, b);
  matmul_plus_bias(a.select(0, 0), b, random({7}, DType::f32));
  Tensor c = Tensor::empty({3, 7}, DType::f32, a.device());
  gemm_with_column_sums(a.select(0, 0), b, c);
  auto statistics = gemm_statistics();
  BOOST_TEST(statistics.calls == 4u);
  BOOST_TEST(statistics.flops == 2.0 * (2 * 2 + 2) * 3 * 5 * 7);
  BOOST_TEST(statistics.seconds > 0);
  reset_gemm_statistics();
  BOOST_TEST(gemm_statistics().calls == 0u);
  BOOST_TEST(gemm_statistics().flops == 0);
}

BOOST_AUTO_TEST_CASE(a_result_counts_as_changed) {
  Tensor c = here(Tensor::zeros({3, 4}));
  auto version = c.version();
  gemm(random({3, 2}, DType::f32), random({2, 4}, DType::f32), c);
  BOOST_TEST(c.version() == version + 1);
}

BOOST_AUTO_TEST_CASE(errors_name_the_shapes_and_the_rule) {
  auto product = [](const Shape& a, const Shape& b) {
    return message_of([&] { matmul(here(Tensor::zeros(a)), here(Tensor::zeros(b))); });
  };
  BOOST_TEST(product({8, 20, 64}, {8, 32, 20}) ==
             "matmul: the inner dimensions differ: a is [8, 20, 64], b is [8, 32, 20]; a's last (64) must equal b's "
             "second to last (32)");
  BOOST_TEST(product({8, 20, 64}, {3, 64, 5}) ==
             "matmul: the batch dimensions do not broadcast: a is [8, 20, 64], b is [3, 64, 5]; 8 and 3 must be equal "
             "or 1");
  BOOST_TEST(product({64}, {64, 5}) == "matmul: needs matrices, [..., m, k] and [..., k, n]: a is [64], b is [64, 5]");
  auto square = [](DType dtype) { return here(Tensor::zeros({2, 2}, dtype)); };
  BOOST_TEST(message_of([&] { matmul(Tensor(), square(DType::f32)); }) ==
             "matmul: a is undefined, b is f32 [2, 2]; both must be defined");
  BOOST_TEST(message_of([&] { matmul(square(DType::f32), square(DType::f64)); }) ==
             "matmul: a is f32, b is f64; cast one of them");
  BOOST_TEST(message_of([&] { matmul(square(DType::i64), square(DType::i64)); }) ==
             "matmul: computes in f32 or f64, not i64; cast the tensor first");

  auto into = [](Tensor c) {
    return message_of([&] { gemm(here(Tensor::zeros({2, 3, 4})), here(Tensor::zeros({4, 5})), c); });
  };
  BOOST_TEST(into(here(Tensor::zeros({2, 3, 6}))) ==
             "gemm: c is [2, 3, 6], the product of [2, 3, 4] and [4, 5] is [2, 3, 5]");
  BOOST_TEST(into(here(Tensor::zeros({2, 3, 5}, DType::f64))) ==
             fmt::format("gemm: c is f64 on {0}, a and b are f32 on {0}", name(test_device())));
  BOOST_TEST(
      into(here(Tensor::zeros({1, 3, 5})).expand({2, 3, 5})) ==
      "gemm: the result is an expanded view, [2, 3, 5] with stride 0 in dimension 0; each element needs memory of its "
      "own");
  BOOST_TEST(into(Tensor()) == "gemm: c is undefined; it must be [2, 3, 5]");
}

BOOST_AUTO_TEST_CASE(long_inner_dimensions_lose_no_digits) {
  const std::int64_t longest = by_device(10'000'000, 300'000);
  const Tensor few = here(Tensor::full({1}, 0.1));
  const double term = few.item() * few.item();
  for (std::int64_t k : {std::int64_t{8'193}, std::int64_t{70'000}, std::int64_t{1'100'000}, longest})
    if (k <= longest)
      for (std::int64_t m : {1, 3, 17})
        for (double beta : {0.0, 2.0}) {
          Tensor c = here(Tensor::full({m, 5}, 1));
          if (m * k > 20'000'000) continue;
          gemm(few.expand({m, k}), few.expand({k, 5}), c, 0.5, beta);
          const double expected = 0.5 * term * static_cast<double>(k) + beta;
          for (double x : c.to_vector<double>())
            BOOST_REQUIRE_MESSAGE(std::abs(x / expected - 1) < 1e-5,
                                  "k = " << k << ", m = " << m << ": " << x << ", not " << expected);
        }
}

BOOST_AUTO_TEST_CASE(long_products_are_those_of_short_ones) {
  const std::int64_t k = by_device(50'000, 20'000);
  for (bool is_transposed : {false, true}) {
    const Tensor a = is_transposed ? random({k, 3}, DType::f32).transpose(0, 1) : random({3, k}, DType::f32);
    const Tensor b = random({k, 20}, DType::f32), bias = random({20}, DType::f32);
    const Tensor exact = matmul(a.to(DType::f64), b.to(DType::f64));
    auto close = [&](const Tensor& x, const Tensor& expected) {
      check_close(map(Affine{1e-4, 0}, x), map(Affine{1e-4, 0}, expected).to_vector<double>(), 1e-5, "long product");
    };
    close(matmul(a, b), exact);
    close(matmul_plus_bias(a, b, bias), map(Add{}, exact, bias.to(DType::f64)));
    Tensor c = here(Tensor::empty({3, 20}));
    close(gemm_with_column_sums(a, b, c), sum(b.to(DType::f64), {0}));
    close(c, exact);
  }
}

BOOST_AUTO_TEST_SUITE_END()
