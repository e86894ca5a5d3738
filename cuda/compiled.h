/// Kernels that are compiled while the program runs: from text, by NVRTC, which needs no GPU.
#pragma once
#include <cstdint>
#include <string>

namespace fovea::cuda {

struct Grid;

/// What NVRTC made of a text: machine code for the architecture or, if the architecture is newer than NVRTC, code that
/// the driver translates.
using CompiledCode = std::string;

/// What ptxas says of a kernel that is machine code; 0 for code that the driver translates.
struct KernelUse {
  int registers = 0, spilled_bytes = 0;
};

/// Compiles `text` for GPUs of this architecture, 10 · major + minor. The text may include the headers that the library
/// carries (meson.build), and no other. In f32 divisions and square roots have an error of at most 2 ulp, and numbers
/// below 1e-38 are 0. Throws Error with `name` and NVRTC's first message, in one line, if the text has a mistake. Fills
/// `use` unless it is null.
CompiledCode compile(const char* name, const std::string& text, int architecture, KernelUse* use = nullptr);

/// Appends the kernel called `kernel` of this text to the stream. `bytes` is the least that it moves (traffic.h). The
/// text is compiled when it is launched for the first time, unless a program has done so before: the code is kept as
/// long as the program runs, and in the folder FOVEA_CACHE. arguments[k] is the address of the kernel's parameter k.
void launch_compiled(const char* name, std::int64_t bytes, const std::string& text, const char* kernel,
                     const Grid& grid, void** arguments);

}  // namespace fovea::cuda
