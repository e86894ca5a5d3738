// The CUDA backend of tensor/: the first GPU, one stream, memory from CUDA's own stream-ordered pool.
#include <algorithm>
#include <mutex>

#include "cuda/primitives.h"
#include "cuda/stream.h"
#include "tensor/cuda_backend.h"

namespace fovea {

namespace cuda {

cudaStream_t stream() {
  static cudaStream_t made = [] {
    cudaStream_t stream;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    return stream;
  }();
  return made;
}

namespace {

constexpr double gibibyte = 1 << 30;

class Backend : public CudaBackend {
 public:
  Backend() {
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaDeviceGetDefaultMemPool(&pool_, 0), "cudaDeviceGetDefaultMemPool");
    std::uint64_t keep_all = UINT64_MAX;  // freed blocks stay in the pool: steady training asks the system for nothing
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all), "cudaMemPoolSetAttribute");
    register_dropout();
    register_maps();
    register_second_derivatives();
  }

  std::byte* allocate(std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    void* block = nullptr;
    std::uint64_t before = reserved();
    if (cudaMallocAsync(&block, bytes, stream()) != cudaSuccess) {
      cudaGetLastError();  // clears it
      std::size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      fail("cuda: out of memory: asked for {:.1f} GiB, {:.1f} GiB free of {:.0f} GiB, fovea holds {:.1f} GiB",
           bytes / gibibyte, free / gibibyte, total / gibibyte, statistics_.bytes_in_use / gibibyte);
    }
    ++statistics_.allocations;
    if (reserved() > before) ++statistics_.system_allocations;
    statistics_.bytes_in_use += bytes;
    statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.bytes_in_use);
    return static_cast<std::byte*>(block);
  }

  void deallocate(std::byte* block, std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    cudaFreeAsync(block, stream());
    statistics_.bytes_in_use -= bytes;
  }

  AllocatorStatistics statistics() const override {
    std::lock_guard lock(mutex_);
    AllocatorStatistics out = statistics_;
    std::uint64_t held = reserved();
    out.bytes_cached = held > out.bytes_in_use ? held - out.bytes_in_use : 0;
    return out;
  }
  void reset_peak() override {
    std::lock_guard lock(mutex_);
    statistics_.peak_bytes = statistics_.bytes_in_use;
  }
  void release_cache() override {
    synchronize();
    check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
  }
  void synchronize() override { check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

  void copy_bytes(void* to, Device to_device, const void* from, Device, std::size_t bytes) override {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream()), "cudaMemcpyAsync");
    // Host memory is the caller's again when this returns, in both directions.
    static_cast<void>(to_device);
    synchronize();
  }
  void copy(Tensor& to, const Tensor& from) override { cuda::copy(to, from); }
  void fill(Tensor& to, double value) override { cuda::fill(to, value); }
  void gemm(const Tensor& a, const Tensor& b, Tensor& c, double alpha, double beta) override {
    cuda::gemm(a, b, c, alpha, beta);
  }
  void reduce(Reduction reduction, const Tensor& in, Tensor& out) override { cuda::reduce(reduction, in, out); }
  void cumulative_sum(const Tensor& in, Tensor& out, bool reverse) override { cuda::cumulative_sum(in, out, reverse); }
  void gather_rows(const Tensor& table, const Tensor& index, Tensor& out) override {
    cuda::gather_rows(table, index, out);
  }
  void scatter_add_rows(Tensor& table, const Tensor& index, const Tensor& rows) override {
    cuda::scatter_add_rows(table, index, rows);
  }

  std::string describe() const override {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    return fmt::format("{}, {:.0f} GiB", properties.name, properties.totalGlobalMem / gibibyte);
  }

 private:
  std::uint64_t reserved() const {
    std::uint64_t bytes = 0;
    cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes);
    return bytes;
  }

  cudaMemPool_t pool_ = nullptr;
  mutable std::mutex mutex_;
  AllocatorStatistics statistics_;
};

}  // namespace

}  // namespace cuda

bool cuda_is_available() {
  int count = 0;
  bool available = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  cudaGetLastError();
  return available;
}

CudaBackend& cuda_backend() {
  static cuda::Backend* backend = [] {  // never destroyed: tensors in static variables may outlive it
    int count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    cudaGetLastError();
    if (status != cudaSuccess || count == 0)
      fail("--device cuda: no GPU here ({}); use --device cpu",
           status == cudaSuccess ? "none found" : cudaGetErrorString(status));
    return new cuda::Backend;
  }();
  return *backend;
}

}  // namespace fovea
