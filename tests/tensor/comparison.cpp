#include "tensor/comparison.h"

#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

std::vector<double> choose(const Tensor& condition, const Tensor& a, const Tensor& b, const Shape& shape) {
  std::vector<double> truths = condition.expand(shape).to_vector<double>(), yes = a.expand(shape).to_vector<double>(),
                      no = b.expand(shape).to_vector<double>();
  for (std::size_t i = 0; i < yes.size(); ++i)
    if (truths[i] == 0) yes[i] = no[i];
  return yes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(choosing)

BOOST_AUTO_TEST_CASE(where_chooses_for_every_type_layout_and_broadcast) {
  Shape shape{3, 5, 17};
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8})
    for (const Tensor& a : layouts(random_tensor({3, 5, 17}, dtype, 0, 100)))
      for (const Shape& other : {Shape{1}, Shape{17}, Shape{5, 1}, Shape{3, 1, 17}, Shape{3, 5, 17}}) {
        Tensor b = random_tensor(other, dtype, 0, 100, 1), condition = random_integers({5, 17}, 2, DType::boolean);
        check_close(where(condition, a, b), choose(condition, a, b, shape), 0, b.describe());
        check_close(where(condition.to(DType::u8), b, a), choose(condition, b, a, shape), 0, b.describe());
        Tensor rows = random_integers({3, 5, 1}, 2, DType::u8, 1);
        check_close(where(rows, b, a), choose(rows, b, a, shape), 0, b.describe());
      }
}

BOOST_AUTO_TEST_CASE(any_byte_but_zero_is_true) {
  Tensor condition = here(Tensor::of({0, 1, 2, 255}, {4}, DType::u8));
  check_close(where(condition, here(Tensor::full({1}, 1)), here(Tensor::full({1}, 0))), {0, 1, 1, 1}, 0, "bytes");
}

BOOST_AUTO_TEST_CASE(comparisons_are_those_of_numbers) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8})
    for (const Tensor& a : layouts(random_tensor({5, 17}, dtype, 0, 9)))
      for (const Shape& other : {Shape{1}, Shape{17}, Shape{5, 1}, Shape{5, 17}}) {
        Tensor b = random_tensor(other, dtype, 0, 9, 1);
        std::vector<double> x = a.to_vector<double>(), y = b.expand({5, 17}).to_vector<double>();
        std::vector<double> is_less, is_less_equal, is_greater, is_greater_equal, is_equal;
        for (std::size_t i = 0; i < x.size(); ++i) {
          is_less.push_back(x[i] < y[i]), is_less_equal.push_back(x[i] <= y[i]);
          is_greater.push_back(x[i] > y[i]), is_greater_equal.push_back(x[i] >= y[i]);
          is_equal.push_back(x[i] == y[i]);
        }
        check_close(less(a, b), is_less, 0, "less");
        check_close(less_equal(a, b), is_less_equal, 0, "less_equal");
        check_close(greater(a, b), is_greater, 0, "greater");
        check_close(greater_equal(a, b), is_greater_equal, 0, "greater_equal");
        check_close(equal(a, b), is_equal, 0, "equal");
      }
  Tensor nan = here(Tensor::full({3}, NAN));
  check_close(less_equal(nan, nan), {0, 0, 0}, 0, "NaN");
}

BOOST_AUTO_TEST_CASE(truths_combine) {
  Tensor a = here(Tensor::of({0, 0, 1, 1}, {2, 2}, DType::boolean)), b = here(Tensor::of({0, 1}, {2}, DType::boolean));
  check_close(logical_and(a, b), {0, 0, 0, 1}, 0, "and");
  check_close(logical_or(a, b), {0, 1, 1, 1}, 0, "or");
  check_close(logical_not(a), {1, 1, 0, 0}, 0, "not");
}

BOOST_AUTO_TEST_CASE(scalars_are_chosen) {
  Tensor yes = here(Tensor::of({1}, {}, DType::u8)), four = here(Tensor::of({4}, {})), five = here(Tensor::of({5}, {}));
  BOOST_TEST(where(yes, four, five).item() == 4);
}

BOOST_AUTO_TEST_CASE(empty_tensors_are_fine_and_wrong_types_are_named) {
  BOOST_TEST(less(here(Tensor::empty({0, 3})), here(Tensor::empty({3}))).shape().str() == "[0, 3]");
  Tensor x = random_tensor({3});
  const std::string device(name(test_device()));
  check_fails_with([&] { where(x, x, x); }, "where: the condition, f64 [3] on " + device + ", must be bool or u8 [*]");
  check_fails_with([&] { less(x, x.to(DType::f32)); },
                   "less: b, f32 [3] on " + device + ", must be f64 [*], beside a any [*], here f64 [3] on " + device);
  check_fails_with([&] { logical_and(x, x); }, "logical_and: a, f64 [3] on " + device + ", must be bool [*]");
  check_fails_with([&] { less(x, random_tensor({4})); }, "less: [3] and [4] do not broadcast");
}

BOOST_AUTO_TEST_CASE(long_runs_are_split_without_seams) {
  const std::int64_t n = by_device(100003, 3003);
  Tensor a = random_tensor({n}, DType::f32), b = random_tensor({n}, DType::f32, -1, 1, 1);
  check_threads_do_not_matter([&] { return std::vector<Tensor>{less(a, b), where(less(a, b), a, b)}; });
  check_close(where(less(a, b), a, b), choose(less(a, b), a, b, a.shape()), 0, "long");
  Tensor one = here(Tensor::full({1}, 1));
  check_threads_do_not_matter([&] { return std::vector<Tensor>{less(one, b), where(less(a, b), one, b)}; });
  check_close(where(less(a, b), one, b), choose(less(a, b), one, b, a.shape()), 0, "one");
  check_steady([&] { where(less(a, b), a, b); });
}

BOOST_AUTO_TEST_SUITE_END()
