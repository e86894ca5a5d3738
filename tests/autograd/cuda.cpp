// The CUDA backend against the CPU, where there is a GPU; one clear line where there is none.
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "autograd/gradcheck.h"
#include "autograd/map.h"
#include "autograd/operations.h"
#include "tensor/formula/functor_list.h"
#include "tensor/formula/functors.h"
#include "tensor/kernels.h"
#include "tensor/reduce.h"
#include "tests/autograd/random_inputs.h"
#include "tests/refusal.h"

using namespace fovea;
using namespace fovea::test;

namespace {

// The random inputs lie on the tested device, and are compared with copies on a GPU here: the CPU must be that device.
const auto with_gpu = skipped_for([] {
  if (!cuda_is_available()) return std::string("there is no GPU");
  return std::string(test_device() == Device::cpu ? "" : "it compares the CPU with a GPU");
});
const auto without_gpu = skipped_for([]() -> std::string { return cuda_is_available() ? "there is a GPU" : ""; });

Variable on_gpu(const Variable& x) { return Variable(x.value().to(Device::cuda), x.requires_grad()); }

double largest_difference(const Tensor& a, const Tensor& b) {
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 0;
  for (std::size_t k = 0; k < x.size(); ++k) largest = std::max(largest, std::abs(x[k] - y[k]) / (1 + std::abs(x[k])));
  return largest;
}

template <class F, std::size_t... k>
void check_on_both(std::index_sequence<k...>) {
  std::vector<Variable> here{random_input(k % 2 ? Shape{1, 17} : Shape{13, 17}, 20 + k, 0.4 + k, 1.2 + k)...};
  std::vector<Variable> there{on_gpu(here[k])...};
  Variable y = map(F{}, here[k]...), z = map(F{}, there[k]...);
  BOOST_TEST(largest_difference(y.value(), z.value()) < 1e-14);
  backward(sum(y * y));
  backward(sum(z * z));
  for (std::size_t i = 0; i < here.size(); ++i)
    BOOST_TEST(largest_difference(here[i].grad().value(), there[i].grad().value()) < 1e-13);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda)

BOOST_AUTO_TEST_CASE(without_a_gpu_the_device_is_one_clear_line, *without_gpu) {
  BOOST_CHECK_EXCEPTION(Tensor::zeros({2}, DType::f32, Device::cuda), Error, [](const Error& error) {
    std::string message = error.what();
    return message.starts_with("--device cuda: ") && message.find('\n') == std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(what_lies_on_different_devices_is_not_mixed, *with_gpu) {
  Variable here = random_input({3}, 1), there = on_gpu(here);
  BOOST_TEST(message_of([&] {
               concat({here, there}, 0);
             }) == "concat: f64 [3] is on cpu and f64 [3] on cuda; move one of them");
  BOOST_TEST(message_of([&] { here.set_grad(there); }) ==
             "set_grad: the gradient is on cuda, the variable on cpu; move one of them");
  for (const Variable& root : {there, there * 2.0})
    BOOST_TEST(message_of([&] { backward(root, here); }) ==
               "backward: the gradient is on cpu, the root on cuda; move one of them");
}

BOOST_AUTO_TEST_CASE(every_formula_and_its_derivative_agree_with_the_cpu, *with_gpu) {
  for_functors<0>(ElementwiseFunctors{}, []<class F, int inputs>(TypedFunctor<F, inputs>) {
    BOOST_TEST_CONTEXT(F::name) { check_on_both<F>(std::make_index_sequence<inputs>{}); }
  });
}

BOOST_AUTO_TEST_CASE(a_linear_layer_passes_gradcheck_on_the_gpu, *with_gpu) {
  std::vector<Variable> inputs{on_gpu(random_input({2, 3, 4}, 1)), on_gpu(random_input({4, 5}, 2)),
                               on_gpu(random_input({5}, 3))};
  auto f = [](const std::vector<Variable>& x) { return tanh(linear(x[0], x[1], x[2])); };
  BOOST_TEST(gradcheck(f, inputs) == "");
  BOOST_TEST(gradgradcheck(f, inputs) == "");
}

BOOST_AUTO_TEST_CASE(products_sums_scans_and_lookups_agree_with_the_cpu, *with_gpu) {
  Variable a = random_input({3, 7, 5}, 1), b = random_input({5, 3, 11}, 2), table = random_input({9, 4}, 3);
  Tensor index = Tensor::from(std::vector<std::int32_t>{3, 0, 3, 8, 3, 1}, {2, 3});
  auto check = [](const Tensor& cpu, const Tensor& gpu) { BOOST_TEST(largest_difference(cpu, gpu) < 1e-13); };
  Tensor x = a.value(), y = b.value().transpose(0, 1), gx = x.to(Device::cuda), gy = y.to(Device::cuda);
  check(matmul(a, Variable(y)).value(), matmul(Variable(gx), Variable(gy)).value());
  check(matmul(transpose(Variable(y), 1, 2), transpose(a, 1, 2)).value(),
        matmul(transpose(Variable(gy), 1, 2), transpose(Variable(gx), 1, 2)).value());
  check(sum(x, {0, 2}), sum(gx, {0, 2}));
  check(maximum_over(x.transpose(0, 2), {1}), maximum_over(gx.transpose(0, 2), {1}));
  check(cumulative_sum(a, true).value(), cumulative_sum(Variable(gx), true).value());
  Variable gpu_table = on_gpu(table);
  Variable rows = gather_rows(table, index), gpu_rows = gather_rows(gpu_table, index.to(Device::cuda));
  check(rows.value(), gpu_rows.value());
  backward(sum(rows * rows));
  backward(sum(gpu_rows * gpu_rows));
  check(table.grad().value(), gpu_table.grad().value());
}

BOOST_AUTO_TEST_SUITE_END()
