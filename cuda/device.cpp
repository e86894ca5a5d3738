// The GPU that fovea uses (the first one), its stream, and its memory, which comes from CUDA's stream-ordered pool.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>

#include "cuda/index_report.h"
#include "cuda/staging.h"
#include "cuda/stream.h"
#include "tensor/kernels.h"

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

std::atomic<std::uint64_t> waits = 0;

}  // namespace

IndexReport* index_report() {
  static auto* report = [] {
    void* pinned = nullptr;  // pinned memory, which kernels and the host both reach
    check(cudaMallocHost(&pinned, sizeof(IndexReport)), "cudaMallocHost");
    return new (pinned) IndexReport{};
  }();
  return report;
}

namespace {

/// Throws if a kernel has reported an index, and clears the report. The stream is idle.
void throw_reported_index() {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (!index_report()->is_written) return;
  const IndexReport report = std::exchange(*index_report(), {});
  report.check.fail_at(report.position, report.value);
}

}  // namespace

void wait_for_stream(const char* what) {
  waits.fetch_add(1, std::memory_order_relaxed);
  check(cudaStreamSynchronize(stream()), what);
  throw_reported_index();
}

namespace {

constexpr double gibibyte = 1 << 30;

/// Returns the reason why no GPU can be used, or an empty string if one can.
std::string obstacle() {
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();  // clears the error
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return count == 0 ? "none found" : "";
}

class Memory {
 public:
  Memory() {
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaDeviceGetDefaultMemPool(&pool_, 0), "cudaDeviceGetDefaultMemPool");
    std::uint64_t keep_all = UINT64_MAX;  // freed blocks stay in the pool and are used again
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all), "cudaMemPoolSetAttribute");
  }

  std::byte* allocate(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    void* block = nullptr;
    std::uint64_t before = reserved();
    if (cudaMallocAsync(&block, std::max<std::size_t>(bytes, 1), stream()) != cudaSuccess) {
      cudaGetLastError();  // clears the error
      std::size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      fail("cuda: out of memory: asked for {:.1f} GiB, {:.1f} GiB free of {:.0f} GiB, fovea holds {:.1f} GiB",
           static_cast<double>(bytes) / gibibyte, static_cast<double>(free) / gibibyte,
           static_cast<double>(total) / gibibyte, static_cast<double>(statistics_.bytes_in_use) / gibibyte);
    }
    ++statistics_.allocations;
    if (reserved() > before) ++statistics_.system_allocations;
    statistics_.bytes_in_use += bytes;
    statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.bytes_in_use);
    return static_cast<std::byte*>(block);
  }

  void deallocate(std::byte* block, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    cudaFreeAsync(block, stream());
    statistics_.bytes_in_use -= bytes;
  }

  AllocatorStatistics statistics() const {
    std::lock_guard lock(mutex_);
    AllocatorStatistics out = statistics_;
    std::uint64_t held = reserved();
    out.bytes_cached = held > out.bytes_in_use ? held - out.bytes_in_use : 0;
    return out;
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    statistics_.peak_bytes = statistics_.bytes_in_use;
  }
  void release_cache() {
    wait_for_stream("release_cache");
    release_staging();
    check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
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

/// Returns the allocator of the GPU. It is never destroyed, because tensors in static variables may outlive it.
Memory& memory() {
  static auto* made = new Memory;
  return *made;
}

void download(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream()), "download");
  wait_for_stream("download");
}

std::string describe() {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return fmt::format("{}, {:.0f} GiB", properties.name, static_cast<double>(properties.totalGlobalMem) / gibibyte);
}

const Provide provide(Device::cuda, [](Kernels& table) {
  table.allocate = [](std::size_t bytes) { return memory().allocate(bytes); };
  table.deallocate = [](std::byte* block, std::size_t bytes) { memory().deallocate(block, bytes); };
  table.statistics = [] { return memory().statistics(); };
  table.reset_peak = [] { memory().reset_peak(); };
  table.release_cache = [] { memory().release_cache(); };
  table.upload = upload;
  table.download = download;
  table.synchronizations = [] { return waits.load(); };
  table.describe = describe;
});

}  // namespace

}  // namespace cuda

bool cuda_is_available() {
  static const bool available = cuda::obstacle().empty();
  return available;
}

void start_cuda() {
  static const bool started = [] {
    std::string obstacle = cuda::obstacle();
    require(obstacle.empty(), "--device cuda: there is no GPU here ({}); use --device cpu", obstacle);
    cuda::memory();
    return true;
  }();
  static_cast<void>(started);
}

}  // namespace fovea
