// Kernels that NVRTC compiles while the program runs. NVRTC needs no GPU, so these tests run wherever CUDA was built.
#include "cuda/compiled.h"

#include <boost/test/unit_test.hpp>

#include "cuda/map_text.h"
#include "tests/attention/all_formulas.h"
#include "tests/refusal.h"

using namespace fovea;
using namespace fovea::test;

namespace {

/// The texts of all formulas of the registry and of their gradients, each once.
std::map<std::string, std::string> all_texts() {
  std::map<std::string, std::string> names;
  for (const auto& [key, formula] : all_formulas())
    for (const Expression& expression : {formula.value(), formula.gradients()})
      for (DType dtype : {DType::f32, DType::f64}) names.emplace(cuda::map_text(expression, dtype), formula.name());
  return names;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(compiled)

BOOST_AUTO_TEST_CASE(every_formula_of_the_registry_compiles) {
  const auto texts = all_texts();
  BOOST_TEST(texts.size() >= 40u);
  for (const auto& [text, name] : texts) BOOST_TEST_CONTEXT(text) {
      BOOST_TEST(cuda::compile(name.c_str(), text, 90).find(cuda::map_text_kernel) != std::string::npos);
    }
}

BOOST_AUTO_TEST_CASE(older_gpus_get_machine_code_and_gpus_newer_than_nvrtc_get_text_for_the_driver) {
  const std::string text = all_texts().begin()->first;
  BOOST_TEST(cuda::compile("formula", text, 80).substr(1, 3) == "ELF");
  const std::string newer = cuda::compile("formula", text, 999);
  BOOST_TEST(newer.find(".visible .entry map_expression") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_mistake_in_a_text_is_one_clear_line) {
  BOOST_TEST(message_of([] {
               cuda::compile("cauchy_bias", "__device__ int i = 1;\n__device__ float x = unknown;\nerror\n", 90);
             }) == "cuda: cauchy_bias: NVRTC: cauchy_bias(2): error: identifier \"unknown\" is undefined");
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

BOOST_AUTO_TEST_CASE(an_option_that_decides_on_steps_has_a_text_of_its_own) {
  const auto kernel = [](Scaled functor) {
    return cuda::functor_kernel(map_formula_of<Scaled, 1>, &functor, DType::f32);
  };
  const auto plain = kernel({3, false}), other = kernel({5, false}), squared = kernel({5, true});
  BOOST_TEST(plain->text == other->text);
  BOOST_TEST(plain->constants[0] == 3);
  BOOST_TEST(other->constants[0] == 5);
  BOOST_TEST(squared->text != other->text);
  for (const auto& made : {plain, squared}) BOOST_TEST(!cuda::compile("scaled", made->text, 90).empty());
  const std::uint64_t recorded = cuda::recorded_functors();
  BOOST_TEST(kernel({5, true}) == squared);
  BOOST_TEST(cuda::recorded_functors() == recorded);
}

BOOST_AUTO_TEST_SUITE_END()
