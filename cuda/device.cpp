// The GPU that fovea uses, its stream, its memory, and CUDA's errors.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "cuda/architectures.h"
#include "cuda/free_blocks.h"
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

// ---- Errors ----

namespace {

constexpr double gibibyte = 1 << 30;

/// Reads an environment variable that is 0 or 1. `meaning` says what the two do, for the Error about another value.
bool is_set(const char* name, bool otherwise, const char* meaning) {
  const char* variable = std::getenv(name);
  const std::string_view text = variable ? variable : otherwise ? "1" : "0";
  require(text == "0" || text == "1", "{}={}: {}", name, text, meaning);
  return text == "1";
}

/// Whether every launch waits, so that a kernel's failure is noticed where it happens.
bool is_synchronous() {
  static const bool waits =
      is_set("FOVEA_CUDA_SYNC", false, "1 makes the host wait for every kernel, 0, the default, does not");
  return waits;
}

/// Whether freed memory is kept for new tensors. On the host it is not, so that kernels which use it are found out.
bool keeps_memory() {
#ifdef FOVEA_CUDA_ON_HOST
  constexpr bool otherwise = false;
#else
  constexpr bool otherwise = true;
#endif
  static const bool keeps = is_set("FOVEA_CUDA_MEMORY_CACHE", otherwise,
                                   "1 keeps freed memory for new tensors, 0 takes each tensor's memory from CUDA");
  return keeps;
}

/// Whether the error comes from a kernel that ran, perhaps long before the call that returned it.
bool is_fault_of_a_kernel(cudaError_t status) {
  constexpr cudaError_t faults[] = {
      cudaErrorIllegalAddress,      cudaErrorLaunchTimeout,      cudaErrorAssert,
      cudaErrorHardwareStackError,  cudaErrorIllegalInstruction, cudaErrorMisalignedAddress,
      cudaErrorInvalidAddressSpace, cudaErrorInvalidPc,          cudaErrorLaunchFailure};
  return std::find(std::begin(faults), std::end(faults), status) != std::end(faults);
}

cudaDeviceProp properties() {
  cudaDeviceProp found;
  check(cudaGetDeviceProperties(&found, gpu_number()), "cudaGetDeviceProperties");
  return found;
}

}  // namespace

void refuse(cudaError_t status, const char* what) {
  const std::string message = cudaGetErrorString(status);
  cudaGetLastError();  // clears the error
  if (!is_fault_of_a_kernel(status)) fail("cuda: {}: {}", what, message);
  if (is_synchronous()) throw KernelFault(fmt::format("cuda: {}: {}", what, message));
  fail("cuda: a kernel failed before '{}' was done: {}; set FOVEA_CUDA_SYNC=1 to learn which one", what, message);
}

// ---- Counts of launches and waits, and reported indices ----

namespace {

std::atomic<std::uint64_t> waits = 0;

/// Counts launches, and the bytes that they move, by name.
class Launches {
 public:
  void add(std::string_view kernel, std::int64_t bytes) {
    std::lock_guard lock(mutex_);
    auto found = counts_.find(kernel);
    if (found == counts_.end()) found = counts_.emplace(kernel, LaunchCount{std::string(kernel)}).first;
    ++found->second.launches;
    found->second.bytes += static_cast<std::uint64_t>(bytes);
  }
  std::vector<LaunchCount> counts() const {
    std::lock_guard lock(mutex_);
    std::vector<LaunchCount> all;
    for (const auto& [kernel, count] : counts_) all.push_back(count);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, LaunchCount, std::less<>> counts_;
};

Launches& launches() {
  static auto* made = new Launches;
  return *made;
}

}  // namespace

void launched(const char* name, std::int64_t bytes) {
  check(cudaGetLastError(), name);
  launches().add(name, bytes);
  if (is_synchronous()) wait_for_stream(name);
}

IndexReport* index_report() {
  static auto* report = [] {
    void* pinned = nullptr;  // pinned memory, which kernels and the host both reach
    check(cudaMallocHost(&pinned, sizeof(IndexReport)), "cudaMallocHost");
    return new (pinned) IndexReport{};
  }();
  return report;
}

namespace {

/// Throws if a kernel has reported an index, and clears the report. A kernel that another thread launched since may be
/// writing it.
void throw_reported_index() {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::atomic_ref<unsigned> is_written(index_report()->is_written);
  if (!is_written.load(std::memory_order_acquire)) return;
  const IndexReport report = *index_report();
  is_written.store(false, std::memory_order_release);  // from here on a kernel may write the next report
  report.check.fail_at(report.position, report.value);
}

}  // namespace

void wait_for_stream(const char* what) {
  waits.fetch_add(1, std::memory_order_relaxed);
  check(cudaStreamSynchronize(stream()), what);
  throw_reported_index();
}

// ---- Memory ----

namespace {

/// "40.0 MiB"
std::string size_text(std::size_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size >= gibibyte) return fmt::format("{:.1f} GiB", size / gibibyte);
  if (size >= 1 << 20) return fmt::format("{:.1f} MiB", size / (1 << 20));
  return bytes >= 1 << 10 ? fmt::format("{:.1f} KiB", size / (1 << 10)) : fmt::format("{} bytes", bytes);
}

/// The GPU's memory: kept blocks (free_blocks.h), or else CUDA's stream-ordered pool.
class Memory {
 public:
  Memory() {
    check(cudaDeviceGetDefaultMemPool(&pool_, gpu_number()), "cudaDeviceGetDefaultMemPool");
    std::uint64_t keep_all = UINT64_MAX;  // freed blocks stay in the pool and are used again
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all), "cudaMemPoolSetAttribute");
  }

  std::byte* allocate(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    std::byte* block = kept_or_new(bytes);
    ++statistics_.allocations;
    statistics_.bytes_in_use += bytes;
    statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.bytes_in_use);
    return block;
  }

  void deallocate(std::byte* block, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    statistics_.bytes_in_use -= bytes;
    if (!keeps_memory() || !kept_.keep(block, FreeBlocks::size_for(bytes), give_to_pool)) return give_to_pool(block);
#ifdef FOVEA_CUDA_ON_HOST
    cudaMemsetAsync(block, 0xff, FreeBlocks::size_for(bytes),
                    stream());  // NaN, for those that use it too late or early
#endif
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
    std::lock_guard lock(mutex_);
    trim();
  }

 private:
  std::byte* kept_or_new(std::size_t bytes) {
    const std::size_t size = keeps_memory() ? FreeBlocks::size_for(bytes) : bytes;
    if (std::byte* kept = kept_.take(size)) return kept;
    std::byte* block = from_pool(size);
    if (!block) {
      trim();
      block = from_pool(size);
    }
    if (!block) refuse_to_allocate(bytes);
    const std::uint64_t before = std::exchange(reserved_, reserved());
    if (reserved_ > before) ++statistics_.system_allocations;
    return block;
  }

  /// Gives all memory back that no tensor holds: kept blocks, the pool's, and that of finished copies from the host.
  void trim() {
    kept_.release_all(give_to_pool);
    wait_for_stream("release_cache");
    release_staging();
    check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
    reserved_ = reserved();
  }

  /// Returns null if the device has not enough memory.
  static std::byte* from_pool(std::size_t bytes) {
    void* block = nullptr;
    const cudaError_t status = cudaMallocAsync(&block, std::max<std::size_t>(bytes, 1), stream());
    if (status == cudaSuccess) return static_cast<std::byte*>(block);
    if (status != cudaErrorMemoryAllocation) refuse(status, "cudaMallocAsync");
    cudaGetLastError();  // clears the error
    return nullptr;
  }
  static void give_to_pool(std::byte* block) { cudaFreeAsync(block, stream()); }

  [[noreturn]] void refuse_to_allocate(std::size_t bytes) const {
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    fail("cuda: out of memory: asked for {}, {} free of {}, fovea holds {}", size_text(bytes), size_text(free),
         size_text(total), size_text(statistics_.bytes_in_use));
  }

  std::uint64_t reserved() const {
    std::uint64_t bytes = 0;
    cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes);
    return bytes;
  }

  cudaMemPool_t pool_ = nullptr;
  FreeBlocks kept_{properties().totalGlobalMem / 8};
  std::uint64_t reserved_ = 0;  ///< bytes of the pool after the last allocation or release
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
  launches().add("download", static_cast<std::int64_t>(bytes));
  wait_for_stream("download");
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()), "copy_bytes");
  launched("copy_bytes", 2 * static_cast<std::int64_t>(bytes));
}

// ---- Time ----

/// A place in the stream, with the time at which the device comes to it.
class TimedEvent {
 public:
  TimedEvent() {
    check(cudaEventCreateWithFlags(&event_, cudaEventDefault), "cudaEventCreate");
    check(cudaEventRecord(event_, stream()), "cudaEventRecord");
  }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;

  /// Both events have happened.
  double seconds_since(const TimedEvent& earlier) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "cudaEventElapsedTime");
    return milliseconds / 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

double time(const std::function<void()>& work) {
  const TimedEvent begin;
  work();
  const TimedEvent end;
  wait_for_stream("time");
  return end.seconds_since(begin);
}

// ---- The device ----

std::string describe() {
  const cudaDeviceProp device = properties();
  return fmt::format("{}, {:.0f} GiB", device.name, static_cast<double>(device.totalGlobalMem) / gibibyte);
}

/// "12.4" of CUDA's 12040.
std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

/// Returns the number of GPUs. If there are none that CUDA can use, returns 0 and sets `obstacle` to the reason.
int count_gpus(std::string& obstacle) {
  int count = 0, driver = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();  // clears the error
  if (status == cudaSuccess && count > 0) return count;
  cudaDriverGetVersion(&driver);
  if (status == cudaSuccess || status == cudaErrorNoDevice)
    obstacle = "the NVIDIA driver finds no GPU on this machine";
  else if (driver == 0)
    obstacle = "no NVIDIA driver is installed on this machine";
  else if (status == cudaErrorInsufficientDriver)
    obstacle = fmt::format("the NVIDIA driver is too old: it supports CUDA {}, fovea was built with CUDA {}",
                           version_text(driver), version_text(CUDART_VERSION));
  else
    obstacle = cudaGetErrorString(status);
  return 0;
}

/// The oldest driver that takes more than 4 KiB of parameters for a kernel. CUDA itself refuses drivers of older major
/// versions only.
constexpr int least_driver = 12010;

/// Makes the GPU the device of this thread, and throws Error if it cannot be used. Returns its number.
int start_gpu() {
  is_synchronous(), keeps_memory();  // these throw if the environment's values are wrong ones
  std::string obstacle;
  const int count = count_gpus(obstacle);
  require(count > 0, "--device cuda: {}; use --device cpu", obstacle);
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  require(
      driver >= least_driver,
      "--device cuda: the NVIDIA driver supports CUDA {}; fovea's kernels have parameters of more than 4 KiB, which "
      "need a driver of CUDA {} or newer; update it, or use --device cpu",
      version_text(driver), version_text(least_driver));
  require(gpu_number() < count, "--device cuda:{}: there {}, counted from 0", gpu_number(),
          count == 1 ? "is 1 GPU" : fmt::format("are {} GPUs", count));
  check(cudaSetDevice(gpu_number()), "cudaSetDevice");
  const cudaDeviceProp gpu = properties();
  require(10 * gpu.major + gpu.minor >= least_architecture,
          "--device cuda: fovea's kernels are built for {}; this GPU, {}, is sm_{}{}; use --device cpu",
          built_architectures, gpu.name, gpu.major, gpu.minor);
  memory();
  return gpu_number();
}

const Provide provide(Device::cuda, [](Kernels& table) {
  table.allocate = [](std::size_t bytes) { return memory().allocate(bytes); };
  table.deallocate = [](std::byte* block, std::size_t bytes) { memory().deallocate(block, bytes); };
  table.statistics = [] { return memory().statistics(); };
  table.reset_peak = [] { memory().reset_peak(); };
  table.release_cache = [] { memory().release_cache(); };
  table.upload = upload;
  table.download = download;
  table.copy_bytes = copy_bytes;
  table.time = time;
  table.synchronizations = [] { return waits.load(); };
  table.launches = [] { return launches().counts(); };
  table.describe = describe;
});

}  // namespace

}  // namespace cuda

bool cuda_is_available() {
  static const bool available = [] {
    std::string obstacle;
    return cuda::count_gpus(obstacle) > 0;
  }();
  return available;
}

void start_cuda() {
  static const int number = cuda::start_gpu();
  // CUDA has a current device in each thread. An error, of a kernel that failed before, is that of the next call.
  thread_local const cudaError_t status = cudaSetDevice(number);
  static_cast<void>(status);
}

}  // namespace fovea
