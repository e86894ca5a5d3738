/// Kernels from text, compiled by the C++ compiler and run by this folder's threads. What the driver does with a launch
/// on a GPU is done here with checks: it copies as many bytes for each parameter as the kernel declares, from wherever
/// the arguments are, and it finds the kernel by its name.
#pragma once
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/grid.h"
#include "cuda/stream.h"
#include "tests/compiled_library.h"
#include "tests/cuda_on_host/runtime.h"
#include "tests/cuda_on_host/text_launch.h"

namespace fovea::test {

/// The text of a kernel in a namespace of its own, so that a file can have several.
inline std::string in_own_namespace(std::string text, const std::string& kernel, std::size_t number) {
  const std::string space = "namespace fovea {";
  const std::size_t at = text.find(space);
  BOOST_REQUIRE(at != std::string::npos);
  text.replace(at, space.size(), fmt::format("namespace fovea::text_{} {{", number));
  return fmt::format("#define {0} {0}_{1}\n{2}#undef {0}\n", kernel, number, text);
}

class TextLibrary {
 public:
  /// `kernels` are the names of the kernels that are asked of the texts. A name that its text does not define is an
  /// error of the compiler.
  explicit TextLibrary(const std::map<std::string, std::string>& kernels, const std::string& options = "-O0")
      : kernels_(kernels), library_(source(kernels), options + " -Wno-unknown-pragmas -Itests/cuda_on_host") {
    for (const auto& [text, kernel] : kernels) numbers_.emplace(text, numbers_.size());
  }

  /// What is wrong with a launch: its text, the name of its kernel, or an argument that is not as the kernel declares
  /// it. Empty if nothing is.
  std::string fault(const cuda::TextLaunch& launch) const {
    const auto found = numbers_.find(launch.text);
    if (found == numbers_.end()) return "the library has no such text";
    if (kernels_.at(launch.text) != launch.kernel) return fmt::format("the text defines no kernel {}", launch.kernel);
    constexpr std::size_t most = 16;
    std::size_t bytes[most], alignments[most];
    auto* describe =
        library_.function<std::size_t(std::size_t*, std::size_t*)>(fmt::format("describe_{}", found->second));
    const std::size_t count = describe(bytes, alignments);
    if (launch.arguments.size() != count)
      return fmt::format("there are {} arguments for {} parameters", launch.arguments.size(), count);
    for (std::size_t k = 0; k < count; ++k)
      if (const cuda::KernelArgument& given = launch.arguments[k];
          given.bytes != bytes[k] || given.alignment != alignments[k])
        return fmt::format("argument {} has {} bytes, aligned to {}; the parameter has {}, aligned to {}", k,
                           given.bytes, given.alignment, bytes[k], alignments[k]);
    return {};
  }

  /// Fails the test if fault() finds one. Otherwise appends the kernel to the stream.
  void run(const cuda::TextLaunch& launch) const {
    const std::string wrong = fault(launch);
    BOOST_REQUIRE_MESSAGE(wrong.empty(), launch.name << ": " << wrong);
    auto* kernel = library_.function<void(const std::byte* const*)>(fmt::format("run_{}", numbers_.at(launch.text)));
    auto copies = std::make_shared<std::vector<std::vector<std::byte>>>();
    for (const cuda::KernelArgument& argument : launch.arguments) {
      const auto* first = static_cast<const std::byte*>(argument.address);
      copies->emplace_back(first, first + argument.bytes);
    }
    auto body = [kernel, copies] {
      std::vector<const std::byte*> addresses;
      for (const std::vector<std::byte>& copy : *copies) addresses.push_back(copy.data());
      kernel(addresses.data());
    };
    cuda_on_host::enqueue(cuda::stream(),
                          {"text", launch.grid.blocks, launch.grid.threads, launch.grid.shared_bytes, body});
  }

 private:
  static std::string source(const std::map<std::string, std::string>& kernels) {
    std::string all = R"(
#include <math.h>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>
template <class P>
P parameter(const std::byte* from) {
  std::array<std::byte, sizeof(P)> bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return std::bit_cast<P>(bytes);
}
template <class... P>
std::size_t describe(void (*)(P...), std::size_t* bytes, std::size_t* alignments) {
  ((*bytes++ = sizeof(P), *alignments++ = alignof(P)), ...);
  return sizeof...(P);
}
template <class... P>
void run(void (*kernel)(P...), const std::byte* const* arguments) {
  [&]<std::size_t... k>(std::index_sequence<k...>) { kernel(parameter<P>(arguments[k])...); }
  (std::index_sequence_for<P...>{});
}
)";
    std::size_t number = 0;
    for (const auto& [text, kernel] : kernels) {
      all += in_own_namespace(text, kernel, number);
      all += fmt::format(
          "extern \"C\" std::size_t describe_{0}(std::size_t* bytes, std::size_t* alignments) {{\n"
          "  return describe(&fovea::text_{0}::{1}_{0}, bytes, alignments);\n}}\n"
          "extern \"C\" void run_{0}(const std::byte* const* arguments) {{\n"
          "  run(&fovea::text_{0}::{1}_{0}, arguments);\n}}\n",
          number++, kernel);
    }
    return all;
  }

  std::map<std::string, std::string> kernels_;
  CompiledLibrary library_;
  std::map<std::string, std::size_t> numbers_;  ///< of the texts, in the library
};

/// Runs `body` with kernels from text where `run` is given the launches: it returns whether it ran one.
template <class Run, class Body>
auto with_texts(const Run& run, const Body& body) {
  struct Set {
    explicit Set(const Run& run) { cuda_on_host::runs_text = run; }
    ~Set() { cuda_on_host::runs_text = nullptr; }
  } set(run);
  return body();
}

/// The kernels that `body` launches from text, for a TextLibrary: their names by their texts. It does not run the
/// texts.
template <class Body>
std::map<std::string, std::string> kernels_of(const Body& body) {
  std::map<std::string, std::string> kernels;
  with_texts(
      [&](const cuda::TextLaunch& launch) {
        kernels.emplace(launch.text, launch.kernel);
        return false;
      },
      body);
  return kernels;
}

}  // namespace fovea::test
