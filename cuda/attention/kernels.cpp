#include "cuda/attention/kernels.h"

#include <chrono>

namespace fovea::cuda {

namespace {

/// The shared memory of a block.
int bytes_of(const KernelOfCall& kernel) { return shared_bytes(kernel.spec.kernel.pass, kernel.spec.block); }

std::vector<TileKernelReport> compile_kernels(const TileCall& call, int architecture) {
  std::vector<TileKernelReport> reports;
  const int most = most_shared_bytes(architecture);
  for (const Kernel& one : kernels_of(call)) {
    KernelOfCall kernel = *kernel_of(call, one, most);
    const BlockShape& block = kernel.spec.block;
    require(bytes_of(kernel) <= most,
            "{}: a block needs {:.1f} KiB of shared memory, of which GPUs of sm_{} have {} KiB", name_of(one),
            bytes_of(kernel) / 1024.0, architecture, most >> 10);
    KernelUse use;
    std::string code;
    const auto begin = std::chrono::steady_clock::now();
    do code = compile(name_of(one), kernel.text, architecture, &use);
    while (use.spilled_bytes > 0 && halve_tiles(kernel));
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    reports.push_back({name_of(one), block.rows(), block.columns, use.registers, use.spilled_bytes, bytes_of(kernel),
                       time.count(), std::move(code)});
  }
  return reports;
}

/// A kernel of a call, compiled with tiles for which this process's GPU has enough registers.
std::shared_ptr<const KernelOfCall> fitting_kernel_of(const TileCall& call, const Kernel& one) {
  return kernel_of(call, one, most_shared_bytes(), [](const KernelOfCall& kernel) {
    const auto bytes = static_cast<std::size_t>(bytes_of(kernel));
    return spilled_bytes(name_of(kernel.spec.kernel), kernel.text, kernel_of_text, bytes) > 0;
  });
}

}  // namespace

std::int64_t widest() { return 256; }

int most_shared_bytes() {
  static const int most = [] {
    int bytes = 0;
    if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu_number()) == cudaSuccess)
      return bytes;
    cudaGetLastError();  // there is no GPU
    return most_shared_bytes(90);
  }();
  return most;
}

std::vector<TileKernelReport> (*const compiles_kernels)(const TileCall& call, int architecture) = compile_kernels;

BlockShape block_of(const Kernel& kernel, const TileCall& call) { return fitting_kernel_of(call, kernel)->spec.block; }
int shared_bytes_of(const Kernel& kernel, const TileCall& call) { return bytes_of(*kernel_of(call, kernel)); }

template <class T>
void run_kernel(const Kernel& one, const TileCall& call, std::int64_t bytes, const AttentionCall<T>& arguments) {
  launch_text(one, *fitting_kernel_of(call, one), bytes, arguments);
}
template void run_kernel(const Kernel&, const TileCall&, std::int64_t, const AttentionCall<float>&);
template void run_kernel(const Kernel&, const TileCall&, std::int64_t, const AttentionCall<double>&);

}  // namespace fovea::cuda
