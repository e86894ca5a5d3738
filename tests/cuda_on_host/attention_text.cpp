// The texts of the kernels of fused attention that NVRTC gets, compiled by the C++ compiler and run by this folder's
// threads: they compute what the kernels of the host build compute.
#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "autograd/operations.h"
#include "cuda/attention/kernels.h"
#include "cuda/carried_headers.h"
#include "tensor/gemm.h"
#include "tests/attention/attentions.h"
#include "tests/cuda_on_host/text_library.h"

using namespace fovea;
using namespace fovea::test;

namespace {

struct Method {
  const char* specification;
  DType dtype;
  Precision products = Precision::f32;
  Place place = Place::encoder;
};

/// The output and all gradients of a method on the device, for heads of width 16.
std::vector<std::vector<double>> results(const Method& method) {
  constexpr std::int64_t T = 70, d = 32;
  const Precision before = matmul_precision();
  set_matmul_precision(method.products);
  AttentionShape shape{.model_dim = d, .heads = 2, .layer = 0, .layers = 2, .place = method.place};
  const auto attention = attention_factory(method.specification)(shape);
  Generator generator(5);
  std::vector<Variable> inputs{Variable(random_tensor({2, T, d}, generator).to(method.dtype).to(Device::cuda), true)};
  for (auto& parameter : attention->parameters())
    Variable(parameter.variable)
        .value()
        .copy_from(random_tensor(parameter.variable.shape(), generator, -0.3, 0.3).to(DType::f32));
  attention->to(method.dtype);
  attention->to(Device::cuda);
  for (auto& parameter : attention->parameters()) inputs.push_back(parameter.variable);
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>{70, 41}, {2}).to(Device::cuda);
  AttentionEngineScope fused(AttentionEngine::fused);
  const Variable out =
      attention->forward({.query = inputs[0], .key = inputs[0], .value = inputs[0], .key_lengths = lengths});
  std::vector<std::vector<double>> all{out.value().to_vector<double>()};
  for (const Variable& x :
       grad(out, inputs, Variable(random_tensor(out.shape(), generator).to(method.dtype).to(Device::cuda))))
    all.push_back(x.value().to_vector<double>());
  set_matmul_precision(before);
  return all;
}

const Method methods[] = {{"gaussian", DType::f64},
                          {"t5 + sinks", DType::f32},
                          {"gaussian + alibi", DType::f32, Precision::bf16},
                          {"gaussian_location(normalize=true)", DType::f32},
                          {"window(use=additive,segment=5)", DType::f64},
                          {"window + gaussian", DType::f32, Precision::bf16},
                          {"additive", DType::f64},
                          {"relative(clip=3) + persistent", DType::f32},
                          {"flexible(threshold=0.5)", DType::f64, Precision::f32, Place::cross}};
// Two pointers of equal forms have a kernel of their own, extra keys three, and a focus two.
constexpr std::size_t texts = 3 * std::size(methods) + 2 + 3 + 2;

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_text)

BOOST_AUTO_TEST_CASE(kernels_from_text_take_their_arguments_and_compute_what_those_of_the_host_compute) {
  std::vector<std::vector<std::vector<double>>> expected;
  const auto kernels = kernels_of([&] {
    for (const Method& method : methods) expected.push_back(results(method));
  });
  const auto of_attention = std::count_if(kernels.begin(), kernels.end(),
                                          [](const auto& kernel) { return kernel.second == cuda::kernel_of_text; });
  BOOST_TEST(of_attention == std::ptrdiff_t{texts});  // the others are those of functors in no list
  const TextLibrary compiled(kernels, "-O1");
  const auto run = [&](const cuda::TextLaunch& launch) {
    compiled.run(launch);
    return true;
  };
  for (std::size_t m = 0; m < std::size(methods); ++m) BOOST_TEST_CONTEXT(methods[m].specification) {
      const auto found = with_texts(run, [&] { return results(methods[m]); });
      // the tiles differ, and so do the maxima by which weights are divided before they are rounded to bf16
      const double tolerance = methods[m].dtype == DType::f64           ? 1e-11
                               : methods[m].products == Precision::bf16 ? 0.02
                                                                        : 1e-5;
      for (std::size_t k = 0; k < found.size(); ++k)
        for (std::size_t e = 0; e < found[k].size(); ++e)
          BOOST_TEST(std::abs(found[k][e] - expected[m][k][e]) <=
                     tolerance * std::max(1.0, std::abs(expected[m][k][e])));
    }
}

BOOST_AUTO_TEST_CASE(tiles_are_halved_while_the_compiler_says_that_a_kernel_spills) {
  CollectedTileCalls collected;
  results(methods[0]);
  const TileCall& call = collected.of_attend.at(0).calls.at(0);
  const cuda::Kernel kernel{cuda::Pass::forward};
  const auto first = cuda::kernel_of(call, kernel);
  const auto halved = cuda::kernel_of(call, kernel, cuda::most_shared_bytes(), [](const cuda::KernelOfCall& made) {
    return made.text.find("columns = 32,") != std::string::npos;
  });
  BOOST_TEST(first->spec.block.columns == 32);
  BOOST_TEST(halved->spec.block.columns == 16);
  BOOST_TEST(halved->text.find("columns = 16,") != std::string::npos);
  BOOST_TEST(halved->spec.block.rows() == first->spec.block.rows());
  const auto least = cuda::kernel_of(call, {cuda::Pass::key_gradients}, cuda::most_shared_bytes(),
                                     [](const cuda::KernelOfCall&) { return true; });
  BOOST_TEST(least->spec.block.columns == 16);
  BOOST_TEST(cuda::kernel_of(call, kernel) == first);
}

// NVRTC finds no other headers: a new one must be named in cuda/meson.build.
BOOST_AUTO_TEST_CASE(texts_include_only_headers_that_the_library_carries) {
  const auto kernels = kernels_of([] { results(methods[0]); });
  const Folder folder;
  for (const cuda::CarriedHeader& header : cuda::carried_headers) folder.write(header.name, header.text);
  for (const auto& [text, kernel] : kernels)
    run_compiler(fmt::format("-nostdinc -E -I'{}' -o /dev/null '{}'", folder.path.string(),
                             folder.write("kernel.cpp", text).string()));
}

BOOST_AUTO_TEST_SUITE_END()
