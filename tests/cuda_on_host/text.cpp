// The texts of kernels that NVRTC gets, run by this folder's threads: they compute what the formulas compute.
#include <fstream>
#include <functional>

#include <boost/test/unit_test.hpp>

#include "autograd/map.h"
#include "cuda/carried_headers.h"
#include "cuda/map_operands.h"
#include "cuda/map_text.h"
#include "tensor/element_loop.h"
#include "tests/attention/all_formulas.h"
#include "tests/cuda_on_host/text_library.h"
#include "tests/refusal.h"

using namespace fovea;
using namespace fovea::test;

namespace {

struct Text {
  Expression expression;
  DType dtype;
  std::string text() const { return cuda::map_text(expression, dtype); }
};

/// The texts of all formulas of the registry, and of their gradients, in f32 and f64.
std::vector<Text> all_texts() {
  std::vector<Text> texts;
  for (const auto& [key, formula] : all_formulas())
    for (DType dtype : {DType::f32, DType::f64})
      for (const Expression& expression : {formula.value(), formula.gradients()}) texts.push_back({expression, dtype});
  return texts;
}

std::map<std::string, std::string> kernels_of_all(const std::vector<Text>& texts) {
  std::map<std::string, std::string> kernels;
  for (const Text& text : texts) kernels.emplace(text.text(), cuda::map_text_kernel);
  return kernels;
}

/// Runs the text's kernel, and waits for it.
template <class T>
void run(const TextLibrary& compiled, const Text& text, std::vector<Tensor>& out, const std::vector<Tensor>& in) {
  std::vector<T> constants(text.expression.constants.begin(), text.expression.constants.end());
  constants.resize(std::max<std::size_t>(constants.size(), 1));
  std::array<const Tensor*, cuda::max_operands> tensors;
  tensors.fill(out.data());
  std::array<T*, cuda::max_operands> first{};
  std::size_t k = 0;
  for (Tensor& y : out) first[k] = y.mutable_data<T>(), tensors[k++] = &y;
  for (const Tensor& x : in) first[k] = const_cast<T*>(x.data<T>()), tensors[k++] = &x;
  const cuda::MapOperands<T> operands(plan_loop<cuda::max_operands>(out[0].shape(), tensors), first);
  const std::string made = text.text();
  compiled.run({"text",
                0,
                made,
                cuda::map_text_kernel,
                cuda::Grid{2, 32},
                {cuda::argument(operands), cuda::argument(constants)}});
  cuda::wait_for_stream("text");
}

/// The expression's results for random inputs are those of `expected`, which takes one element's inputs. Input 0 has a
/// row for each second number, the others are broadcast along rows or columns.
template <class T>
void check_text(const TextLibrary& compiled, const Text& text,
                const std::function<std::vector<T>(const std::vector<T>& x)>& expected) {
  constexpr std::int64_t rows = 5, columns = 17;
  Generator generator(29);
  std::vector<Tensor> in, in_full, out;
  for (int k = 0; k < text.expression.inputs; ++k) {
    const Shape shape = k == 0 ? Shape{columns, rows} : k % 2 ? Shape{rows, 1} : Shape{columns};
    Tensor x = random_tensor(shape, generator, -3, 3).to(dtype_of<T>);
    Tensor there = x.to(Device::cuda);
    if (k == 0) x = x.transpose(0, 1), there = there.transpose(0, 1);
    in.push_back(there);
    in_full.push_back(x.expand({rows, columns}).contiguous());
  }
  for (std::size_t k = 0; k < text.expression.results.size(); ++k)
    out.push_back(Tensor::empty({rows, columns}, dtype_of<T>, Device::cuda));
  run<T>(compiled, text, out, in);
  std::vector<std::vector<T>> got, x;
  for (const Tensor& y : out) got.push_back(y.to_vector<T>());
  for (const Tensor& one : in_full) x.push_back(one.to_vector<T>());
  for (std::size_t e = 0; e < static_cast<std::size_t>(rows * columns); ++e) {
    std::vector<T> element;
    for (const std::vector<T>& one : x) element.push_back(one[e]);
    const std::vector<T> right = expected(element);
    for (std::size_t k = 0; k < got.size(); ++k)
      BOOST_TEST(alike(got[k][e], right[k]), "result " << k << " is " << got[k][e] << ", not " << right[k]);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(text)

BOOST_AUTO_TEST_CASE(kernels_from_text_compute_the_formulas_of_the_registry) {
  const auto formulas = all_formulas();
  const std::vector<Text> texts = all_texts();
  const TextLibrary compiled(kernels_of_all(texts));
  std::size_t next = 0;
  for (const auto& named : formulas) BOOST_TEST_CONTEXT(named.first) {
      const PointwiseFormula& formula = named.second;
      auto check = [&]<class T>(T) {
        const PointwiseKernels<T>& kernels = formula.kernels<T>();
        check_text<T>(compiled, texts[next++], [&](const std::vector<T>& x) {
          return std::vector<T>{kernels.value(formula.functor(), x.data())};
        });
        check_text<T>(compiled, texts[next++], [&](const std::vector<T>& x) {
          std::vector<T> gradients(1 + static_cast<std::size_t>(formula.captures()));
          kernels.gradients(formula.functor(), x[0], x.data() + 1, gradients.data());
          return gradients;
        });
      };
      check(float());
      check(double());
    }
}

/// Stands in for the declarations that NVRTC has built in. The compiler reads it before the texts.
constexpr const char* built_into_nvrtc = R"(
#define __CUDACC__
#define __CUDACC_RTC__
#define __global__
#define __device__
#define __host__
#define __grid_constant__
struct dim3 {
  unsigned x, y, z;
};
extern const dim3 threadIdx, blockIdx, blockDim, gridDim;
)";

BOOST_AUTO_TEST_CASE(texts_compile_with_the_carried_headers_alone) {
  const Folder folder;
  std::ofstream built_in(folder / "built_in.h");
  built_in << built_into_nvrtc;
  for (const char* function : {"fabs", "exp", "log", "log1p", "sqrt", "floor", "tanh", "erf", "sin", "cos"})
    built_in << fmt::format("float {0}(float);\ndouble {0}(double);\n", function);
  built_in.close();
  for (const cuda::CarriedHeader& header : cuda::carried_headers) {
    std::filesystem::create_directories((folder / header.name).parent_path());
    std::ofstream(folder / header.name) << header.text;
  }
  std::ofstream texts(folder / "texts.cpp");
  std::size_t number = 0;
  for (const auto& [text, kernel] : kernels_of_all(all_texts())) texts << in_own_namespace(text, kernel, number++);
  texts.close();
  run_compiler(fmt::format("-fsyntax-only -fno-builtin -nostdinc -I'{0}' -include '{0}/built_in.h' '{0}/texts.cpp'",
                           folder.path.string()));
}

// ---- Kernels are made once for each functor ----

/// One option is a constant of the expression, the other decides what its steps are.
struct Scaled {
  static constexpr const char* name = "scaled";
  double factor;
  bool is_squared;
  template <class T>
  T operator()(T x) const {
    const T y = x * T(factor);
    return is_squared ? y * y : y;
  }
};

BOOST_AUTO_TEST_CASE(a_functor_is_recorded_once_and_others_of_its_type_keep_their_options) {
  const std::vector<double> numbers{-2, -0.5, 0, 1, 3};
  const Tensor x = Tensor::from(numbers, {5}).to(Device::cuda);
  auto check = [&](const Scaled& functor, std::uint64_t recordings) {
    const std::uint64_t before = cuda::recorded_functors();
    const std::vector<double> made = map(functor, x).to_vector<double>();
    for (std::size_t k = 0; k < numbers.size(); ++k) BOOST_TEST(made[k] == functor(numbers[k]));
    BOOST_TEST(cuda::recorded_functors() - before == recordings);
  };
  check({3, false}, 1);
  check({3, false}, 0);
  check({5, false}, 1);  // another constant
  check({5, true}, 1);   // other steps
  check({3, false}, 0);
  check({5, true}, 0);
  const auto kernel = [](Scaled functor) {
    return cuda::functor_kernel(map_formula_of<Scaled, 1>, &functor, DType::f64);
  };
  BOOST_TEST(kernel({3, false})->text == kernel({5, false})->text);
  BOOST_TEST(kernel({5, true})->text != kernel({5, false})->text);
  BOOST_TEST(kernel({3, false})->constants[0] == 3);
  BOOST_TEST(kernel({5, true})->constants[0] == 5);
}

BOOST_AUTO_TEST_CASE(functors_in_no_list_are_launched_with_the_arguments_that_their_texts_take) {
  const Tensor x = Tensor::of({-2, -0.5, 0, 1, 3, 4}, {2, 3}).to(Device::cuda);
  auto results = [&] {
    std::vector<std::vector<double>> all;
    for (DType dtype : {DType::f32, DType::f64})
      for (const Scaled& functor : {Scaled{3, false}, Scaled{5, true}})
        all.push_back(map(functor, x.to(dtype).transpose(0, 1)).to_vector<double>());
    return all;
  };
  std::vector<std::vector<double>> expected;
  const TextLibrary compiled(kernels_of([&] { expected = results(); }));
  int launches = 0;
  const auto run = [&](const cuda::TextLaunch& launch) {
    compiled.run(launch);
    ++launches;
    return true;
  };
  BOOST_TEST((with_texts(run, results) == expected));
  BOOST_TEST(launches == 4);
}

BOOST_AUTO_TEST_CASE(launches_whose_arguments_are_not_the_parameters_are_found) {
  const Expression twice{
      1,
      {2.0, 3.0},
      {{Operation::input, {0, 0, 0}}, {Operation::constant, {1, 0, 0}}, {Operation::multiply, {0, 1, 0}}},
      {2}};
  const std::string text = cuda::map_text(twice, DType::f64), other = cuda::map_text(twice, DType::f32);
  const TextLibrary compiled({{text, cuda::map_text_kernel}});
  const Tensor x = Tensor::zeros({3}, DType::f64, Device::cuda);
  std::array<const Tensor*, cuda::max_operands> tensors;
  tensors.fill(&x);
  const cuda::MapOperands<double> operands(plan_loop<cuda::max_operands>(x.shape(), tensors),
                                           std::array<double*, cuda::max_operands>{});
  const std::vector<double> constants{2, 3}, fewer{2};
  const std::vector<float> halves{2, 3, 4, 5};
  const cuda::Grid grid{1};
  auto fault = [&](const std::string& of, const char* kernel, const std::vector<cuda::KernelArgument>& arguments) {
    return compiled.fault({"map", 0, of, kernel, grid, arguments});
  };
  const cuda::KernelArgument first = cuda::argument(operands);
  BOOST_TEST(fault(text, cuda::map_text_kernel, {first, cuda::argument(constants)}) == "");
  BOOST_TEST(fault(text, cuda::map_text_kernel, {first}) == "there are 1 arguments for 2 parameters");
  BOOST_TEST(fault(text, cuda::map_text_kernel, {first, cuda::argument(fewer)}) ==
             "argument 1 has 8 bytes, aligned to 8; the parameter has 16, aligned to 8");
  BOOST_TEST(fault(text, cuda::map_text_kernel, {first, cuda::argument(halves)}) ==
             "argument 1 has 16 bytes, aligned to 4; the parameter has 16, aligned to 8");
  BOOST_TEST(fault(text, "map", {first, cuda::argument(constants)}) == "the text defines no kernel map");
  BOOST_TEST(fault(other, cuda::map_text_kernel, {first, cuda::argument(halves)}) == "the library has no such text");
}

BOOST_AUTO_TEST_CASE(options_are_arguments_of_one_text) {
  Expression two{1,
                 {2.0},
                 {{Operation::input, {0, 0, 0}}, {Operation::constant, {0, 0, 0}}, {Operation::multiply, {0, 1, 0}}},
                 {2}};
  Expression three = two;
  three.constants = {3.0};
  BOOST_TEST(cuda::map_text(two, DType::f32) == cuda::map_text(three, DType::f32));
  BOOST_TEST(cuda::map_text(two, DType::f32) != cuda::map_text(two, DType::f64));
}

struct WithPointer {
  static constexpr const char* name = "with_pointer";
  const double* factor;
  template <class T>
  T operator()(T x) const {
    return x * T(*factor);
  }
};

BOOST_AUTO_TEST_CASE(a_functor_that_reads_what_it_points_to_is_refused_when_that_has_changed) {
  const Tensor x = Tensor::of({1, 2}, {2}, DType::f32).to(Device::cuda);
  double factor = 3;
  map(WithPointer{&factor}, x);
  factor = 4;
  BOOST_TEST(message_of([&] { map(WithPointer{&factor}, x); }) ==
             "cuda: with_pointer: the functor computes something else than one with the same bytes did before; a "
             "functor must not read what it points to");
}

BOOST_AUTO_TEST_SUITE_END()
