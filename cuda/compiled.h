/// Kernels that are compiled while the program runs: from text, by NVRTC, which needs no GPU.
#pragma once
#include <cstdint>
#include <string>

namespace fovea::cuda {

struct Grid;

/// What NVRTC made of a text: machine code for the architecture or, if the architecture is newer than NVRTC, code that
/// the driver translates.
using CompiledCode = std::string;

/// Compiles `text` for GPUs of this architecture, 10 · major + minor. The text may include "cuda/device_loop.h",
/// "cuda/map_operands.h" and "tensor/formula/gpu_math.h", which the library carries, and no other header. Throws Error
/// with `name` and NVRTC's first message, in one line, if the text has a mistake.
CompiledCode compile(const char* name, const std::string& text, int architecture);

/// Appends the kernel called `kernel` of this text to the stream. `bytes` is the least that it moves (traffic.h). The
/// text is compiled when it is launched for the first time, and kept as long as the program runs. arguments[k] is the
/// address of the kernel's parameter k.
void launch_compiled(const char* name, std::int64_t bytes, const std::string& text, const char* kernel,
                     const Grid& grid, void** arguments);

}  // namespace fovea::cuda
