/// Kernels that are compiled while the program runs: from text, by NVRTC, which needs no GPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fovea::cuda {

struct Grid;

/// What NVRTC made of a text: machine code for the architecture or, if the architecture is newer than NVRTC, code that
/// the driver translates.
using CompiledCode = std::string;

/// What ptxas says of a kernel that is machine code; 0 for code that the driver translates.
struct KernelUse {
  int registers = 0, spilled_bytes = 0;
};

/// The options of every compilation, without that for the architecture. In f32 divisions and square roots have an error
/// of at most 2 ulp, and numbers below 1e-38 are 0 (attention/README.md, "Precision").
inline constexpr const char* compile_options[] = {"--std=c++20", "--device-as-default-execution-space", "--ftz=true",
                                                  "--prec-div=false", "--prec-sqrt=false"};

/// Compiles `text` for GPUs of this architecture, 10 · major + minor. The text may include the headers that the library
/// carries (meson.build), and no other. Throws Error with `name` and NVRTC's first message, in one line, if the text
/// has a mistake. Fills `use` unless it is null.
CompiledCode compile(const char* name, const std::string& text, int architecture, KernelUse* use = nullptr);

/// The bytes of one parameter of a kernel, which launches copy.
struct KernelArgument {
  const void* address;
  std::size_t bytes, alignment;
};
template <class T>
KernelArgument argument(const T& x) {
  return {&x, sizeof(T), alignof(T)};
}
/// A parameter that is a struct with an array of these numbers.
template <class T>
KernelArgument argument(const std::vector<T>& numbers) {
  return {numbers.data(), numbers.size() * sizeof(T), alignof(T)};
}

/// A launch of the kernel called `kernel` of this text.
struct TextLaunch {
  const char* name;
  std::int64_t bytes;  ///< the least that it moves (traffic.h)
  const std::string& text;
  const char* kernel;
  const Grid& grid;
  std::vector<KernelArgument> arguments;  ///< one for each of the kernel's parameters
};

/// Appends the kernel to the stream. The text is compiled when it is launched for the first time, unless a program has
/// done so before: the code is kept as long as the program runs, and in the folder FOVEA_CACHE. Returns false, and does
/// nothing, where kernels run on the CPU: there the C++ compiler has compiled what the text is made of.
bool launch_compiled(const TextLaunch& launch);

/// How many bytes of registers the kernel called `kernel` of this text keeps in memory, because a thread of this
/// process's GPU has too few of them; 0 for code that the driver translates. Compiles the text if need be, as a launch
/// with so many bytes of shared memory would.
int spilled_bytes(const char* name, const std::string& text, const char* kernel, std::size_t shared_bytes);

}  // namespace fovea::cuda
