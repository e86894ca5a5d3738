// The texts of the kernels of fused attention that NVRTC gets, compiled by the C++ compiler and run by this folder's
// threads: they compute what the kernels of the host build compute.
#include <cstdlib>
#include <fstream>
#include <map>

#include <boost/test/unit_test.hpp>
#include <dlfcn.h>

#include "attention/engine/attend.h"
#include "autograd/operations.h"
#include "cuda/attention/kernels.h"
#include "cuda/carried_headers.h"
#include "cuda/stream.h"
#include "tensor/gemm.h"
#include "tests/attention/attentions.h"
#include "tests/cuda_on_host/runtime.h"
#include "tests/files.h"

using namespace fovea;
using namespace fovea::test;

namespace {

struct Method {
  const char* specification;
  DType dtype;
  Precision products = Precision::f32;
};

/// The output and all gradients of a method on the device, for heads of width 16.
std::vector<std::vector<double>> results(const Method& method) {
  constexpr std::int64_t T = 70, d = 32;
  const Precision before = matmul_precision();
  set_matmul_precision(method.products);
  AttentionShape shape{.model_dim = d, .heads = 2, .layer = 0, .layers = 2, .place = Place::encoder};
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

/// A kernel's text, under names that no other text has, and a function that a thread of the kernel calls.
std::string with_own_names(const std::string& text, const std::string& number_type, std::size_t number) {
  std::string all, after;
  for (const char* name : {"attention_kernel", "Spec", "logit_expression", "logit_gradients_expression",
                           "weight_expression", "weight_gradients_expression"}) {
    all += fmt::format("#define {0} {0}_{1}\n", name, number);
    after += fmt::format("#undef {}\n", name);
  }
  return all + text +
         fmt::format(
             "extern \"C\" void run_{0}(const void* call, const void* constants) {{\n"
             "  fovea::Spec spec;\n"
             "  std::memcpy(&spec, constants, sizeof spec);\n"
             "  fovea::attention_kernel(*static_cast<const fovea::cuda::AttentionCall<{1}>*>(call), spec);\n}}\n",
             number, number_type) +
         after;
}

/// Kernels compiled from their texts, in a library of their own.
class CompiledKernels {
 public:
  /// `types` are the texts, each with its type of numbers.
  explicit CompiledKernels(const std::map<std::string, std::string>& types) {
    const std::filesystem::path source = folder_ / "kernels.cpp", library = folder_ / "kernels.so";
    std::ofstream file(source);
    file << "#include <cmath>\n#include <cstring>\n";
    for (const auto& [text, type] : types) {
      file << with_own_names(text, type, numbers_.size());
      numbers_.emplace(text, numbers_.size());
    }
    file.close();
    const char* compiler = std::getenv("FOVEA_TEST_COMPILER");
    const std::string command =
        fmt::format("{} -std=c++20 -O1 -Wno-unknown-pragmas -fPIC -shared -I. -Itests/cuda_on_host -o '{}' '{}'",
                    compiler ? compiler : "c++", library.string(), source.string());
    BOOST_REQUIRE_MESSAGE(std::system(command.c_str()) == 0, command);
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    BOOST_REQUIRE_MESSAGE(library_, dlerror());
  }
  ~CompiledKernels() { dlclose(library_); }
  CompiledKernels(const CompiledKernels&) = delete;
  CompiledKernels& operator=(const CompiledKernels&) = delete;

  template <class T>
  void run(const cuda::KernelOnHost& on_host) const {
    const std::string name = fmt::format("run_{}", numbers_.at(on_host.kernel.text));
    auto* kernel = reinterpret_cast<void (*)(const void*, const void*)>(dlsym(library_, name.c_str()));
    BOOST_REQUIRE_MESSAGE(kernel, name);
    const cuda::BlockShape& block = on_host.kernel.spec.block;
    auto body = [kernel, call = *static_cast<const cuda::AttentionCall<T>*>(on_host.arguments),
                 constants = std::vector<T>(on_host.kernel.constants.begin(), on_host.kernel.constants.end())] {
      kernel(&call, constants.data());
    };
    cuda_on_host::enqueue(cuda::stream(),
                          {"text", on_host.blocks, static_cast<unsigned>(32 * block.warps),
                           static_cast<std::size_t>(cuda::shared_bytes(on_host.kernel.spec.kernel.pass, block)), body});
  }

 private:
  Folder folder_;
  void* library_ = nullptr;
  std::map<std::string, std::size_t> numbers_;  ///< of the texts
};

const Method methods[] = {{"gaussian", DType::f64},
                          {"t5 + sinks", DType::f32},
                          {"gaussian + alibi", DType::f32, Precision::bf16},
                          {"gaussian_location(normalize=true)", DType::f32},
                          {"window(use=additive,segment=5)", DType::f64},
                          {"window + gaussian", DType::f32, Precision::bf16},
                          {"additive", DType::f64},
                          {"relative(clip=3) + persistent", DType::f32}};
// Two pointers of equal forms have a kernel of their own, and the extra keys of the last method three.
constexpr std::size_t texts = 3 * std::size(methods) + 2 + 3;

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_text)

BOOST_AUTO_TEST_CASE(kernels_from_text_compute_what_those_of_the_host_compute) {
  std::vector<std::vector<std::vector<double>>> expected;
  std::map<std::string, std::string> types;
  cuda::runs_text = [&](const cuda::KernelOnHost& on_host) {
    types.emplace(on_host.kernel.text, on_host.kernel.spec.number == DType::f64 ? "double" : "float");
    return false;
  };
  for (const Method& method : methods) expected.push_back(results(method));
  BOOST_TEST(types.size() == texts);
  const CompiledKernels compiled(types);
  cuda::runs_text = [&](const cuda::KernelOnHost& on_host) {
    if (on_host.kernel.spec.number == DType::f64)
      compiled.run<double>(on_host);
    else
      compiled.run<float>(on_host);
    return true;
  };
  for (std::size_t m = 0; m < std::size(methods); ++m) BOOST_TEST_CONTEXT(methods[m].specification) {
      const auto found = results(methods[m]);
      // the tiles differ, and so do the maxima by which weights are divided before they are rounded to bf16
      const double tolerance = methods[m].dtype == DType::f64           ? 1e-11
                               : methods[m].products == Precision::bf16 ? 0.02
                                                                        : 1e-5;
      for (std::size_t k = 0; k < found.size(); ++k)
        for (std::size_t e = 0; e < found[k].size(); ++e)
          BOOST_TEST(std::abs(found[k][e] - expected[m][k][e]) <=
                     tolerance * std::max(1.0, std::abs(expected[m][k][e])));
    }
  cuda::runs_text = nullptr;
}

// NVRTC finds no other headers: a new one must be named in cuda/meson.build.
BOOST_AUTO_TEST_CASE(texts_include_only_headers_that_the_library_carries) {
  std::string text;
  cuda::runs_text = [&](const cuda::KernelOnHost& on_host) {
    text = on_host.kernel.text;
    return false;
  };
  results(methods[0]);
  cuda::runs_text = nullptr;
  const Folder folder;
  for (const cuda::CarriedHeader& header : cuda::carried_headers) folder.write(header.name, header.text);
  const std::filesystem::path source = folder.write("kernel.cpp", text);
  const char* compiler = std::getenv("FOVEA_TEST_COMPILER");
  const std::string command = fmt::format("{} -std=c++20 -nostdinc -E -I'{}' -o /dev/null '{}'",
                                          compiler ? compiler : "c++", folder.path.string(), source.string());
  BOOST_TEST(std::system(command.c_str()) == 0, command);
}

BOOST_AUTO_TEST_SUITE_END()
