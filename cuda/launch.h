/// Launches kernels.
#pragma once
#include <algorithm>

#include "cuda/device_loop.h"
#include "cuda/grid.h"
#include "cuda/stream.h"
#include "cuda/traffic.h"
#include "tensor/element_loop.h"
#include "tensor/tensor.h"
#ifdef FOVEA_CUDA_ON_HOST
#include <tuple>

#include "tests/cuda_on_host/runtime.h"
#endif

namespace fovea::cuda {

/// The elements of operands of several types that a thread takes at a time: those of a 16-byte Pack of the largest.
template <class... T>
inline constexpr int pack_width = std::min({widest_pack<T>...});

/// Appends a kernel to the stream. `bytes` is the least that it reads and writes in the GPU's memory (traffic.h), which
/// is counted. Throws Error naming `name` if CUDA refuses the launch; an error while the kernel runs is reported when
/// the program next waits for the stream.
template <class... Parameters, class... Arguments>
void launch(const char* name, std::int64_t bytes, void (*kernel)(Parameters...), const Grid& grid,
            const Arguments&... arguments) {
#ifdef FOVEA_CUDA_ON_HOST
  auto body = [kernel, given = std::tuple<Parameters...>(arguments...)] { std::apply(kernel, given); };
  cuda_on_host::enqueue(stream(), {name, grid.blocks, grid.threads, grid.shared_bytes, body});
#else
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, stream()>>>(arguments...);
#endif
  launched(name, bytes);
}

}  // namespace fovea::cuda
