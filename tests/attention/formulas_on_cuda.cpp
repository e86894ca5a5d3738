// Every pointwise formula of the registry gives the same results on CUDA and on the CPU.
#include <functional>

#include <boost/test/unit_test.hpp>

#include "tensor/kernels.h"
#include "tests/attention/all_formulas.h"

using namespace fovea;
using namespace fovea::test;

namespace {

const boost::unit_test::precondition with_cuda([](boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result runs(cuda_is_available());
  runs.message() << "there is no GPU";
  return runs;
});

/// A layout of a formula's inputs: input k has the shape shapes[k % shapes.size()], and lies in memory in the reverse
/// order of its dimensions, with gaps, or contiguously.
struct Layout {
  const char* name;
  std::vector<Shape> shapes;
  bool has_gaps;
};
// The first input is z. With inputs of one shape gradients are no sums, so that inputs can hold infinities and NaN and
// are still comparable.
const std::vector<Layout> of_one_shape{
    {"one number", {{1}}, false}, {"one shape", {{3, 7, 17}}, false}, {"one shape with gaps", {{3, 5, 13}}, true}};
const std::vector<Layout> broadcast_to_each_other{
    {"broadcast", {{2, 3, 5, 7}, {5, 1}, {7}, {3, 1, 1}, {2, 3, 5, 1}, {2, 3, 1, 7}}, false},
    {"broadcast with gaps", {{2, 1, 5, 7}, {5, 1}, {1, 7}, {2, 3, 1, 7}, {3, 1, 1}, {2, 1, 5, 7}}, true}};

/// x in memory of its own: every second element of a larger tensor, which holds the dimensions in reverse order.
Variable with_gaps(const Tensor& x) {
  Shape wider;
  for (int d = x.rank() - 1; d >= 0; --d) wider.push_back(x.size(d));
  wider.push_back(2);
  Tensor out = Tensor::full(wider, 9, x.dtype(), x.device()).select(-1, 1);
  std::vector<int> reversed;
  for (int d = x.rank() - 1; d >= 0; --d) reversed.push_back(d);
  out = out.permute(reversed);
  out.copy_from(x);
  return Variable(out, true);
}

/// The same inputs on both devices.
struct Inputs {
  std::vector<Variable> cpu, cuda;
};
Inputs random_inputs(int count, const Layout& layout, DType dtype, double low, double high, bool with_specials) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> special{infinity, -infinity, std::numeric_limits<double>::quiet_NaN(), 0.0};
  Generator generator(17);
  Inputs inputs;
  for (int k = 0; k < count; ++k) {
    std::vector<double> values =
        random_tensor(layout.shapes[static_cast<std::size_t>(k) % layout.shapes.size()], generator, low, high)
            .to_vector<double>();
    if (with_specials)  // one input in three elements
      for (std::size_t e = static_cast<std::size_t>(k) * 3; e < values.size(); e += static_cast<std::size_t>(count) * 3)
        values[e] = special[e / 3 % special.size()];
    const Tensor here =
        Tensor::from(values, layout.shapes[static_cast<std::size_t>(k) % layout.shapes.size()]).to(dtype);
    const Tensor there = here.to(Device::cuda);
    inputs.cpu.push_back(layout.has_gaps ? with_gaps(here) : Variable(here, true));
    inputs.cuda.push_back(layout.has_gaps ? with_gaps(there) : Variable(there, true));
  }
  return inputs;
}

template <class T>
void check_alike(const Variable& cuda, const Variable& cpu, const std::string& what) {
  BOOST_TEST((cuda.device() == Device::cuda));
  BOOST_REQUIRE(cuda.shape() == cpu.shape());
  const std::vector<T> got = cuda.value().to_vector<T>(), expected = cpu.value().to_vector<T>();
  std::size_t e = 0;
  while (e < got.size() && alike(got[e], expected[e])) ++e;
  if (e < got.size())
    BOOST_ERROR(what << ": element " << e << " is " << got[e] << " on cuda and " << expected[e] << " on the CPU");
}

/// Values and gradients of all inputs.
template <class T>
void check_first_order(const PointwiseFormula& formula, const Layout& layout, bool with_specials) {
  const DType dtype = dtype_of<T>;
  // from 0.3 on, log and divisions of most formulas give moderate numbers; with specials, inputs are negative too
  const Inputs x = random_inputs(3 + formula.captures(), layout, dtype, with_specials ? -3 : 0.3,
                                 with_specials ? 3 : 1.5, with_specials);
  const Variable here = formula.map(x.cpu), there = formula.map(x.cuda);
  check_alike<T>(there, here, "value");
  Generator generator(23);
  Tensor gradient = random_tensor(here.shape(), generator).to(dtype);
  const Gradients of_cpu = grad(here, x.cpu, gradient), of_cuda = grad(there, x.cuda, gradient.to(Device::cuda));
  for (std::size_t k = 0; k < of_cpu.size(); ++k)
    check_alike<T>(of_cuda[k], of_cpu[k], fmt::format("gradient of input {}", k));
}

/// The gradients of the sum of squares of all gradients.
template <class T>
void check_second_order(const PointwiseFormula& formula, const Layout& layout) {
  const Inputs x = random_inputs(3 + formula.captures(), layout, dtype_of<T>, 0.3, 1.5, false);
  auto second = [&](const std::vector<Variable>& inputs) {
    const Variable y = formula.map(inputs);
    const Gradients first = grad(sum(y), inputs, {}, {.create_graph = true});
    Variable total = Tensor::zeros({}, y.dtype(), y.device());
    for (const Variable& g : first) total = total + sum(g * g);
    return grad(total, inputs);
  };
  const Gradients of_cpu = second(x.cpu), of_cuda = second(x.cuda);
  for (std::size_t k = 0; k < of_cpu.size(); ++k)
    check_alike<T>(of_cuda[k], of_cpu[k], fmt::format("second derivative, input {}", k));
}

void for_every_formula(const std::function<void(const PointwiseFormula&)>& body) {
  const auto formulas = all_formulas();
  BOOST_TEST(formulas.size() >= 12u);
  for (const auto& [key, formula] : formulas) BOOST_TEST_CONTEXT(key) {
      body(formula);
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(formulas_on_cuda)

BOOST_AUTO_TEST_CASE(values_and_gradients_are_those_of_the_cpu, *with_cuda) {
  for_every_formula([](const PointwiseFormula& formula) {
    for (bool with_specials : {false, true})
      for (const Layout& layout : of_one_shape) BOOST_TEST_CONTEXT(layout.name) {
          check_first_order<float>(formula, layout, with_specials);
          check_first_order<double>(formula, layout, with_specials);
        }
    for (const Layout& layout : broadcast_to_each_other) BOOST_TEST_CONTEXT(layout.name) {
        check_first_order<float>(formula, layout, false);
        check_first_order<double>(formula, layout, false);
      }
  });
}

BOOST_AUTO_TEST_CASE(second_derivatives_are_those_of_the_cpu, *with_cuda) {
  for_every_formula([](const PointwiseFormula& formula) {
    check_second_order<float>(formula, of_one_shape[2]);
    check_second_order<double>(formula, broadcast_to_each_other[1]);
  });
}

BOOST_AUTO_TEST_SUITE_END()
