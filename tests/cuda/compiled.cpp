// Kernels that NVRTC compiles while the program runs. NVRTC needs no GPU, so these tests run wherever CUDA was built.
#include "cuda/compiled.h"

#include <boost/test/unit_test.hpp>

#include "attention/engine/tiles.h"
#include "attention/registry.h"
#include "cuda/map_text.h"
#include "tensor/gemm.h"
#include "tensor/random.h"
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

/// The calls of a method with heads of a width, in f32 with products of numbers in bf16.
std::vector<TileCall> calls_of(const char* method, std::int64_t width) {
  const Precision before = matmul_precision();
  set_matmul_precision(Precision::bf16);
  const auto attention = attention_factory(method)({.model_dim = 2 * width, .heads = 2, .layers = 2});
  Tensor states = Tensor::empty({1, 8, 2 * width}, DType::f32);
  Generator generator(1);
  fill_normal(states, generator);
  const Variable x(states, true);
  CollectedTileCalls collected;
  attention->forward({.query = x, .key = x, .value = x});
  set_matmul_precision(before);
  return collected.of_attend.at(0).calls;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(compiled)

BOOST_AUTO_TEST_CASE(kernels_of_attention_fit_the_registers_and_the_shared_memory_of_each_gpu) {
  const std::map<int, int> most_shared_kibibytes{{80, 163}, {86, 99}, {90, 227}};
  const std::pair<const char*, std::int64_t> methods[] = {
      {"global", 128},
      {"gaussian", 128},
      {"relative", 128},
      {"dman", 128},
      {"window", 128},
      {"gaussian + sinks(tokens=1,logit=true)", 128},
      {"dman + sliding(left=5,right=3) + sinks(tokens=2) + rotary", 128},
      {"relative + dman", 64},
      {"relative + adaptive_span + window", 64}};
  for (const auto& [method, width] : methods)
    for (const TileCall& call : calls_of(method, width))
      for (const auto& [architecture, kibibytes] : most_shared_kibibytes)
        for (const TileKernelReport& kernel : attention_kernels().compile(call, architecture))
          BOOST_TEST_CONTEXT(method << ", " << kernel.kernel << ", sm_" << architecture) {
            BOOST_TEST(kernel.spilled_bytes == 0);
            BOOST_TEST(kernel.shared_bytes <= kibibytes << 10);
          }
}

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

BOOST_AUTO_TEST_SUITE_END()
