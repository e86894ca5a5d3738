#include "tensor/reduce.h"

#include "tensor/formula/reductions.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

/// Naive: every element of x joins the total of its place in the kept shape.
template <class R>
std::vector<double> reduced(R, const Tensor& x, unsigned dims) {
  Shape kept = x.shape();
  for (int d = 0; d < x.rank(); ++d)
    if (dims >> d & 1) kept[d] = 1;
  Shape steps = contiguous_strides(kept);
  std::vector<double> out(static_cast<std::size_t>(kept.elements()), R::identity);
  std::vector<double> values = x.to_vector<double>();
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    std::int64_t rest = i, at = 0;
    for (int d = x.rank() - 1; d >= 0; --d) {
      if (kept[d] != 1) at += rest % x.size(d) * steps[d];
      rest /= x.size(d);
    }
    double value = values[static_cast<std::size_t>(i)], &total = out[static_cast<std::size_t>(at)];
    total = R::join(total, value);
  }
  return out;
}

/// Calls body with every reduction of the list.
template <class Body, class... R>
void for_every_reduction(const Body& body, FunctorList<R...>) {
  (body(R{}), ...);
}

std::vector<int> listed(unsigned dims) {
  std::vector<int> list;
  for (int d = 0; d < Shape::max_rank; ++d)
    if (dims >> d & 1) list.push_back(d);
  return list;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reductions)

BOOST_AUTO_TEST_CASE(every_set_of_dimensions_of_every_layout_is_reduced_as_a_naive_loop_does) {
  // Up to 2210 numbers of both signs: their rounding errors do not cancel as they do.
  auto tolerance = [](DType dtype) { return 5 * tolerance_of(dtype); };
  for (const Shape& shape :
       {Shape{17}, Shape{130}, Shape{3, 17}, Shape{17, 3}, Shape{1, 130}, Shape{by_device(130, 13), 17},
        Shape{3, 1, 17}, Shape{5, by_device(4, 2), 3, 17}, Shape{2, 17, 1, 3}, Shape{2, 3, 2, 3, 5}})
    for (DType dtype : {DType::f32, DType::f64})
      for (const Tensor& x : layouts(random_tensor(shape, dtype)))
        for (unsigned dims = 1; dims < 1u << shape.rank(); ++dims)
          for_every_reduction(
              [&](auto reduction) {
                check_close(reduce(reduction, x, listed(dims), true), reduced(reduction, x, dims), tolerance(dtype),
                            "dims " + std::to_string(dims) + " of " + x.describe() + " strides " + x.strides().str());
              },
              formula::Reductions{});
}

BOOST_AUTO_TEST_CASE(long_axes_and_few_results_are_split_without_loss) {
  const std::vector<Shape> shapes{{60001},    {3, 20003},   {20003, 3},    {700, 300},
                                  {300, 700}, {50, 3, 500}, {20000, 1, 2}, {70, 500, 1}};
  const std::vector<Shape> shorter{{20001}, {3, 2003}, {103, 3}, {20, 300}, {7, 3, 50}, {100, 1, 2}, {7, 70, 1}};
  for (const Shape& shape : by_device(shapes, shorter))
    for (DType dtype : {DType::f32, DType::f64}) {
      Tensor x = random_tensor(shape, dtype, 0, 1);
      for (unsigned dims = 1; dims < 1u << shape.rank(); ++dims)
        for_every_reduction(
            [&](auto reduction) {
              check_close(reduce(reduction, x, listed(dims), true), reduced(reduction, x, dims),
                          dtype == DType::f32 ? 1e-6 : 1e-12, x.describe() + " dims " + std::to_string(dims));
            },
            formula::Reductions{});
    }
}

BOOST_AUTO_TEST_CASE(tensors_of_the_greatest_rank_are_reduced) {
  Tensor x = random_tensor({2, 1, 3, 1, 1, 1, 1, 2}, DType::f64);
  for (unsigned dims : {2u, 4u, 129u, 255u})
    check_close(reduce(formula::Sum{}, x, listed(dims), true), reduced(formula::Sum{}, x, dims), 1e-14, x.describe());
  Tensor full = random_tensor({2, 2, 2, 2, 2, 2, 2, 2}, DType::f64);
  check_close(sum(full, {3}), reduced(formula::Sum{}, full, 8), 1e-14, full.describe());
}

BOOST_AUTO_TEST_CASE(broadcast_tensors_are_summed_as_often_as_they_are_seen) {
  Tensor row = random_tensor({17}).expand({130, 17}), column = random_tensor({130, 1}).expand({130, 17}),
         one = random_tensor({1}).expand({4, 17});
  for (const Tensor& x : {row, column, one, row.transpose(0, 1)})
    for (unsigned dims = 1; dims < 4; ++dims)
      check_close(reduce(formula::Sum{}, x, listed(dims)), reduced(formula::Sum{}, x, dims), 1e-12, x.describe());
}

BOOST_AUTO_TEST_CASE(f32_sums_stay_near_the_exact_sum) {
  // equal summands: the rounding errors of a running f32 sum all go one way
  const Shape shape{2, by_device(1 << 18, 1 << 12)};
  for (const Tensor& x : {random_tensor(shape, DType::f32, 0, 1), here(Tensor::full(shape, 0.1))}) {
    std::vector<double> rows = reduced(formula::Sum{}, x, 2);
    check_close(sum(x, {1}), rows, 5e-7, "rows");
    check_close(sum(x.transpose(0, 1).contiguous(), {0}), rows, 5e-7, "columns");
  }
}

BOOST_AUTO_TEST_CASE(keep_decides_whether_the_dimension_stays) {
  Tensor x = random_tensor({3, 17, 5});
  BOOST_TEST(sum(x, {1}).shape().str() == "[3, 5]");
  BOOST_TEST(sum(x, {-2}, true).shape().str() == "[3, 1, 5]");
  BOOST_TEST(sum(x).shape().str() == "[]");
  BOOST_TEST(sum(x, {0, 2}).shape().str() == "[17]");
}

BOOST_AUTO_TEST_CASE(nothing_sums_to_zero_and_has_maximum_minus_infinity) {
  Tensor x = here(Tensor::empty({3, 0}, DType::f32));
  check_close(sum(x, {1}), {0, 0, 0}, 0, "sum");
  check_close(maximum_over(x, {1}), {-INFINITY, -INFINITY, -INFINITY}, 0, "maximum");
  BOOST_TEST(sum(x, {0}).elements() == 0);
  BOOST_TEST(sum(here(Tensor::of({2.5}, {}))).item() == 2.5);
}

BOOST_AUTO_TEST_CASE(a_nan_is_never_lost) {
  for (std::int64_t at : {0, 7, 8, 100, 129})
    for (const Shape& shape : {Shape{130, 1}, Shape{1, 130}}) {
      Tensor x = with_element(random_tensor(shape, DType::f32), at, NAN);
      BOOST_TEST(std::isnan(sum(x).item()));
      BOOST_TEST(std::isnan(maximum_over(x).item()));
      BOOST_TEST(std::isnan(maximum_over(x, {0}).select(0, shape[1] == 1 ? 0 : at).item()));
    }
}

BOOST_AUTO_TEST_CASE(integers_and_truths_are_counted_in_i64) {
  Tensor truths = here(Tensor::of({1, 0, 1, 1, 0, 1}, {2, 3}, DType::boolean));
  BOOST_TEST((sum(truths).dtype() == DType::i64));
  check_close(sum(truths, {1}), {2, 2}, 0, "bool");
  check_close(sum(random_integers({130}, 100, DType::i32)), reduced(formula::Sum{}, random_integers({130}, 100), 1), 0,
              "i32");
  const std::int64_t large = (std::int64_t{1} << 60) + 1;  // no f64
  Tensor numbers = here(Tensor::from(std::vector{large, large, -large, std::int64_t{3}}, {2, 2}));
  BOOST_TEST(sum(numbers, {0}).to_vector<std::int64_t>() == (std::vector{std::int64_t{0}, large + 3}),
             boost::test_tools::per_element());
  check_fails_with([&] { maximum_over(truths); }, "maximum_over: computes in f32 or f64, not bool");
}

BOOST_AUTO_TEST_CASE(integers_are_summed_without_a_wider_copy) {
  const std::int64_t n = by_device(1 << 22, 1 << 14);
  for (DType dtype : {DType::boolean, DType::u8, DType::i32}) {
    const Tensor x = here(Tensor::full({n / 16, 16}, 1, dtype));
    sum(x);
    reset_peak(test_device());
    const std::size_t before = allocator_statistics(test_device()).bytes_in_use;
    BOOST_TEST(sum(x).item() == static_cast<double>(n));
    BOOST_TEST(allocator_statistics(test_device()).peak_bytes - before < static_cast<std::size_t>(n));
    check_close(sum(x, {0}), std::vector<double>(16, static_cast<double>(n / 16)), 0, "columns");
    check_close(sum(x.transpose(0, 1), {0}), std::vector<double>(static_cast<std::size_t>(n / 16), 16), 0, "rows");
  }
  for (DType dtype : {DType::boolean, DType::u8, DType::i32, DType::i64}) {
    const Tensor x = random_integers({3, 7, 17}, 2, dtype);
    for (const Tensor& view : layouts(x))
      for (int dim : {0, 1, 2}) BOOST_TEST(same_bits(sum(view, {dim}), sum(x.to(DType::f64), {dim}).to(DType::i64)));
  }
  BOOST_TEST(sum(here(Tensor::zeros({0, 3}, DType::boolean)), {0}).to_vector<double>() == std::vector<double>(3, 0),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(bf16_is_reduced_in_f32_and_rounded_once) {
  Tensor x = random_tensor({5, 130}, DType::bf16, 0, 1);
  BOOST_TEST((sum(x, {1}).dtype() == DType::bf16));
  check_close(sum(x, {1}), reduced(formula::Sum{}, x, 2), 1.0 / 256, "sum");
  check_close(maximum_over(x, {0}), reduced(formula::MaximumOver{}, x, 1), 0, "maximum");
}

BOOST_AUTO_TEST_CASE(the_norm_is_that_of_all_elements_in_f64) {
  std::vector<Tensor> tensors;
  double expected = 0;
  const std::vector<Shape> shapes{{17, 130}, {1}, {130}, {3, 1, 17}, {0, 4}, {by_device(40000, 4000)}, {}};
  for (const Shape& shape : shapes)
    for (DType dtype : {DType::f32, DType::f64})
      for (const Tensor& x : layouts(random_tensor(shape, dtype))) {
        tensors.push_back(x);
        for (double value : x.to_vector<double>()) expected += value * value;
      }
  tensors.push_back(here(Tensor::of({3}, {1})).expand({100, 3}));
  BOOST_TEST(std::abs(global_norm(tensors).item() - std::sqrt(expected + 2700)) < 1e-11 * std::sqrt(expected));
  BOOST_TEST(global_norm({}).item() == 0);
  Tensor large = here(Tensor::full({100}, 1e30));
  BOOST_TEST(std::abs(global_norm(std::span(&large, 1)).item() / 1e31 - 1) < 1e-6);
}

BOOST_AUTO_TEST_CASE(norms_of_every_size_take_no_wait) {
  for (DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n : {0, 1, 257, 16384, 3 * 16384 + 5}) {
      std::vector<Tensor> tensors{here(Tensor::full({n}, 2, dtype)),
                                  here(Tensor::full({7, 3}, 1, dtype)).transpose(0, 1)};
      const std::uint64_t before = kernels(test_device()).synchronizations();
      const Tensor norm = global_norm(tensors);
      BOOST_TEST(kernels(test_device()).synchronizations() == before);
      BOOST_TEST(norm.item() == std::sqrt(static_cast<double>(4 * n + 21)));  // the sum is exact
    }
  Tensor none = here(Tensor::empty({0}));
  BOOST_TEST(global_norm(std::span(&none, 1)).item() == 0);
  Tensor bad = here(Tensor::of({1, NAN}, {2}));
  BOOST_TEST(std::isnan(global_norm(std::span(&bad, 1)).item()));
}

BOOST_AUTO_TEST_CASE(the_norm_of_numbers_of_any_size_is_right) {
  auto norm = [](double x, DType dtype) {
    const std::vector<Tensor> tensors{here(Tensor::of({3 * x, 0}, {2}, dtype)), here(Tensor::of({-4 * x}, {1}, dtype))};
    return global_norm(tensors).item() / x;
  };
  for (double x : {1e-38, 1e-20, 1.0, 1e20, 5e37}) BOOST_TEST(std::abs(norm(x, DType::f32) - 5) < 1e-6);
  for (double x : {1e-300, 1e-200, 1.0, 1e200, 2e307}) BOOST_TEST(std::abs(norm(x, DType::f64) - 5) < 1e-12);
}

BOOST_AUTO_TEST_CASE(sum_to_is_the_adjoint_of_broadcasting) {
  Tensor x = random_tensor({3, 4, 17});
  check_close(sum_to(x, {17}), reduced(formula::Sum{}, x, 3), 1e-12, "[17]");
  check_close(sum_to(x, {4, 1}), reduced(formula::Sum{}, x, 5), 1e-12, "[4, 1]");
  check_close(sum_to(x, {}), reduced(formula::Sum{}, x, 7), 1e-12, "[]");
  BOOST_TEST(sum_to(x, {3, 4, 17}).is_same_view(x));
  BOOST_TEST(sum_to(random_tensor({1, 1, 5}), {5}).shape().str() == "[5]");
  check_fails_with([&] { sum_to(x, {3}); }, "sum_to: [3, 4, 17] cannot be summed down to [3]");
}

BOOST_AUTO_TEST_CASE(wrong_dimensions_are_named) {
  Tensor x = random_tensor({3, 4});
  check_fails_with([&] { sum(x, {2}); }, "sum: dimension 2 is out of range for [3, 4]");
  check_fails_with([&] { sum(x, {1, -1}); }, "sum: dimension -1 is named twice");
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter) {
  Tensor x = random_tensor({by_device(700, 20), 3, 130}, DType::f32),
         wide = random_tensor({by_device(4096, 96), by_device(512, 64)}, DType::f32);
  check_threads_do_not_matter([&] {
    return std::vector<Tensor>{
        sum(x),      sum(x, {0}), sum(x, {2}),    sum(x, {0, 2}), maximum_over(x, {0}),
        sum(x, {1}), sum(wide),   sum(wide, {0}), sum(wide, {1}), global_norm(std::vector{x, wide})};
  });
}

BOOST_AUTO_TEST_CASE(repetition_allocates_nothing) {
  Tensor x = random_tensor({by_device(1000, 10), 700}, DType::f32);
  check_steady([&] { sum(x, {0}), sum(x, {1}), sum(x), global_norm(std::span(&x, 1)); });
}

BOOST_AUTO_TEST_SUITE_END()
