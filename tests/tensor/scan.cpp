#include "autograd/operations/cumulative_sum.h"
#include "tensor/reduce.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

std::vector<double> naive_sums(const Tensor& x, bool reverse) {
  std::vector<double> out = x.to_vector<double>();
  std::int64_t n = x.size(-1);
  for (double* row = out.data(); row != out.data() + out.size(); row += n)
    for (std::int64_t k = 1; k < n; ++k) {
      std::int64_t j = reverse ? n - 1 - k : k, before = reverse ? j + 1 : j - 1;
      row[j] += row[before];
    }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scan)

BOOST_AUTO_TEST_CASE(prefix_and_suffix_sums_are_those_of_a_naive_loop) {
  for (const Shape& shape :
       {Shape{1}, Shape{17}, Shape{3, 130}, Shape{by_device(130, 13), 3}, Shape{17, 1}, Shape{2, 3, 17}})
    for (DType dtype : {DType::f32, DType::f64})
      for (const Tensor& x : layouts(random_tensor(shape, dtype)))
        for (bool reverse : {false, true})
          check_close(cumulative_sum(x, reverse), naive_sums(x, reverse), tolerance_of(dtype), x.describe());
}

BOOST_AUTO_TEST_CASE(long_f32_rows_do_not_drift) {
  Tensor x = random_tensor({2, by_device(1 << 20, 1 << 14)}, DType::f32, 0, 1);
  for (bool reverse : {false, true})
    check_close(cumulative_sum(x, reverse), naive_sums(x, reverse), 1.2e-7, x.describe());
}

BOOST_AUTO_TEST_CASE(empty_rows_and_no_rows_are_fine) {
  BOOST_TEST(cumulative_sum(here(Tensor::empty({3, 0}))).shape().str() == "[3, 0]");
  BOOST_TEST(cumulative_sum(here(Tensor::empty({0, 3}))).shape().str() == "[0, 3]");
  check_fails_with(
      [] { cumulative_sum(here(Tensor::of({1}, {}))); },
      "cumulative_sum: x, f64 [] on " + std::string(name(test_device())) + ", must be f32 or f64 [..., n]");
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter_and_repetition_allocates_nothing) {
  Tensor x = random_tensor({by_device(1001, 31), 130}, DType::f32);
  check_threads_do_not_matter([&] { return std::vector<Tensor>{cumulative_sum(x), cumulative_sum(x, true)}; });
  check_steady([&] { cumulative_sum(x); });
}

BOOST_AUTO_TEST_SUITE_END()
