#include "cuda/attention/kernels.h"

#include <chrono>

namespace fovea::cuda {

namespace {

std::vector<TileKernelReport> compile_kernels(const TileCall& call, int architecture) {
  std::vector<TileKernelReport> reports;
  for (const Kernel& one : kernels_of(call)) {
    const auto kernel = kernel_of(call, one, most_shared_bytes(architecture));
    const BlockShape& block = kernel->spec.block;
    const int bytes = shared_bytes(one.pass, block), most = most_shared_bytes(architecture);
    require(bytes <= most, "{}: a block needs {:.1f} KiB of shared memory, of which GPUs of sm_{} have {} KiB",
            name_of(one), bytes / 1024.0, architecture, most >> 10);
    KernelUse use;
    const auto begin = std::chrono::steady_clock::now();
    compile(name_of(one), kernel->text, architecture, &use);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    reports.push_back(
        {name_of(one), block.rows(), block.columns, use.registers, use.spilled_bytes, bytes, time.count()});
  }
  return reports;
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

BlockShape block_of(const Kernel& kernel, const TileCall& call) { return kernel_of(call, kernel)->spec.block; }
int shared_bytes_of(const Kernel& kernel, const TileCall& call) {
  return shared_bytes(kernel.pass, block_of(kernel, call));
}

template <class T>
void run_kernel(const Kernel& one, const TileCall& call, std::int64_t bytes, const AttentionCall<T>& arguments) {
  launch_text(one, *kernel_of(call, one), bytes, arguments);
}
template void run_kernel(const Kernel&, const TileCall&, std::int64_t, const AttentionCall<float>&);
template void run_kernel(const Kernel&, const TileCall&, std::int64_t, const AttentionCall<double>&);

}  // namespace fovea::cuda
