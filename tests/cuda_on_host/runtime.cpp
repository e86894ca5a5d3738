// CUDA's runtime calls on the host. Operations wait in the queues of their streams, and run only when the program waits
// for them: what is read without waiting is still the old value.
#include "tests/cuda_on_host/runtime.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include <unistd.h>

#include "tensor/error.h"
#include "tensor/support/suggestion.h"
#include "tests/cuda_on_host/machine.h"
#include "tests/cuda_on_host/memory.h"

struct CUevent_st {
  std::uint64_t recorded = 0;                  ///< how often it was put in a queue
  std::uint64_t completed = 0;                 ///< how many of these have run
  std::chrono::steady_clock::time_point time;  ///< when the latest of them ran
};

namespace {

struct QueuedOperation {
  const char* name;
  std::function<void()> run;
  CUevent_st* awaited = nullptr;  ///< the operation can run once this event has completed so often
  std::uint64_t times = 0;
};

}  // namespace

struct CUstream_st {
  std::deque<QueuedOperation> queue;
};

namespace fovea::cuda_on_host {

namespace {

/// Queues longer than this are run even though nothing waits for them, as a device would.
constexpr std::size_t longest_queue = 4096;
/// Kernels run in one order only while the program holds more device memory than this: copies of it would take long.
constexpr std::size_t most_compared_bytes = std::size_t{32} << 20;
/// There are no kernels for older GPUs.
constexpr int oldest_architecture = 80;
constexpr std::size_t most_shared_bytes = std::size_t{227} << 10;

void watch_faults();
/// Prints a line if no kernel of the name that is to fail has run.
void warn_of_an_unknown_fault();

class Runtime {
 public:
  Runtime() {
    if (const char* text = std::getenv("FOVEA_CUDA_ORDERS")) orders = std::clamp(std::atoi(text), 1, 4);
    if (!machine().fault.empty()) std::atexit(warn_of_an_unknown_fault);
  }

  std::recursive_mutex mutex;
  DeviceMemory memory{machine().memory};
  std::set<CUstream_st*> streams;
  std::map<const void*, std::size_t> pinned;
  /// The blocks of the device's memory pool that are allocated and not yet given to cudaFreeAsync, the sum of their
  /// bytes, and the largest value of that sum since the pool was trimmed, which is the memory that the pool has taken
  /// from the device. Later operations of the stream can use a freed block again.
  std::map<const void*, std::size_t> pool_blocks;
  std::size_t pool_in_use = 0, pool_reserved = 0;
  cudaError_t last_error = cudaSuccess;
  std::string fault;  ///< what the latest faulty kernel did
  std::uint64_t synchronizations = 0, launches = 0;
  int orders = 1;
  std::set<std::string> names_run;  ///< the kernels that ran, if one of them is to fail

  cudaError_t remember(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
  }

  void enqueue(CUstream_st* stream, QueuedOperation operation) {
    stream->queue.push_back(std::move(operation));
    if (stream->queue.size() > longest_queue) remember(run_until([stream] { return stream->queue.empty(); }));
  }

  /// Runs what waits in the queues until `done`: of the streams that can go on, one after the other at random, so that
  /// nothing relies on how two streams that do not wait for each other take turns.
  template <class Done>
  cudaError_t run_until(const Done& done) {
    watch_faults();
    memory.unlock();
    cudaError_t status = cudaSuccess;
    try {
      while (!done()) run_next();
      std::string damage = memory.repair();
      require(damage.empty(), "a kernel or copy wrote outside of device memory: {}", damage);
    } catch (const std::exception& error) {
      for (CUstream_st* stream : streams) stream->queue.clear();
      fault = error.what();
      status = cudaErrorLaunchFailure;
    }
    memory.lock();
    return status;
  }

  /// Throws Error if the kernels of this name are to fail.
  void fail_if_demanded(const std::string& kernel) {
    if (machine().fault.empty()) return;
    names_run.insert(kernel);
    require(machine().fault != kernel, "kernel '{}': fails, as FOVEA_CUDA_ON_HOST demands", kernel);
  }

  void run_kernel(const Launch& launch) {
    ++launches;
    fail_if_demanded(launch.name);
    using Of = Order::Of;
    if (orders == 1 || memory.bytes_in_use() > most_compared_bytes)
      return run_grid(launch, {Of::shuffled, Of::shuffled, launches});
    const std::vector<std::byte> before = memory.contents();
    run_grid(launch, {});
    const std::vector<std::byte> after = memory.contents();
    const Order others[] = {
        {Of::backward, Of::forward}, {Of::forward, Of::backward}, {Of::shuffled, Of::shuffled, launches}};
    const char* names[] = {"threads", "blocks", "threads and blocks"};
    for (int k = 0; k + 1 < orders; ++k) {
      memory.restore(before);
      run_grid(launch, others[k]);
      std::string difference = memory.difference(after);
      require(difference.empty(), "kernel '{}': what it writes depends on the order in which its {} run, {}",
              launch.name, names[k], difference);
    }
  }

 private:
  static bool can_run(const CUstream_st* stream) {
    if (stream->queue.empty()) return false;
    const QueuedOperation& first = stream->queue.front();
    return !first.awaited || first.awaited->completed >= first.times;
  }

  void run_next() {
    std::vector<CUstream_st*> ready;
    for (CUstream_st* stream : streams)
      if (can_run(stream)) ready.push_back(stream);
    require(!ready.empty(), "streams wait for each other's events, or for one that nothing records: none can go on");
    CUstream_st* chosen = ready[std::uniform_int_distribution<std::size_t>(0, ready.size() - 1)(random_)];
    QueuedOperation operation = std::move(chosen->queue.front());
    chosen->queue.pop_front();
    if (operation.run) operation.run();
  }

  std::mt19937_64 random_{1};
};

/// Never destroyed: tensors in static variables may outlive it.
Runtime& runtime() {
  static auto* made = new Runtime;
  return *made;
}

void warn_of_an_unknown_fault() {
  const std::set<std::string>& names = runtime().names_run;
  if (names.contains(machine().fault)) return;
  std::fputs(fmt::format("FOVEA_CUDA_ON_HOST: fault={}: no kernel of this name ran{}\n", machine().fault,
                         did_you_mean(machine().fault, {names.begin(), names.end()}))
                 .c_str(),
             stderr);
}

/// A fault in device memory: of a kernel, which ends with an error, or of host code, which has no business there.
struct sigaction previous_action;
void on_fault(int signal, siginfo_t* info, void* detail) {
  DeviceMemory& memory = runtime().memory;
  if (memory.contains(info->si_addr)) {
    std::string where = memory.describe(info->si_addr);
    if (in_kernel()) report_fault("reads or writes outside of device memory: " + where);
    std::fprintf(
        stderr,
        "cuda on the host: host code reads or writes device memory, %s; copy it to the host first, and wait for "
        "the copy\n",
        where.c_str());
    std::_Exit(2);
  }
  if (previous_action.sa_flags & SA_SIGINFO) return previous_action.sa_sigaction(signal, info, detail);
  std::signal(SIGSEGV, SIG_DFL);  // the instruction runs again, and ends the program
}

/// Installs on_fault where something else, such as a test framework, has put its own handler.
void watch_faults() {
  struct sigaction action {
  }, now{};
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault) return;
  previous_action = now;
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;  // a kernel's thread does not return from the handler
  sigaction(SIGSEGV, &action, nullptr);
}

using Lock = std::lock_guard<std::recursive_mutex>;

std::size_t count(dim3 size) { return std::size_t{size.x} * size.y * size.z; }

}  // namespace

void enqueue(cudaStream_t stream, const Launch& launch) {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  const std::size_t threads = count(launch.block);
  if (threads == 0 || threads > 1024 || count(launch.grid) == 0 || launch.grid.y > 65535 || launch.grid.z > 65535 ||
      launch.shared_bytes > most_shared_bytes) {
    own.remember(cudaErrorInvalidConfiguration);
    return;
  }
  if (machine().architecture < oldest_architecture) {
    own.remember(cudaErrorNoKernelImageForDevice);
    return;
  }
  own.enqueue(stream, {launch.name, [launch] { runtime().run_kernel(launch); }});
}

void enqueue(cudaStream_t stream, const char* name, std::function<void()> run) {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  own.enqueue(stream, {name, [name, run = std::move(run)] {
                         runtime().fail_if_demanded(name);
                         run();
                       }});
}

void drain(cudaStream_t stream) {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  own.remember(own.run_until([stream] { return stream->queue.empty(); }));
}

void set_orders(int orders) { runtime().orders = std::clamp(orders, 1, 4); }
int orders() { return runtime().orders; }
std::uint64_t synchronizations() { return runtime().synchronizations; }
bool is_device_memory(const void* first, std::size_t bytes) {
  Lock lock(runtime().mutex);
  return runtime().memory.is_inside_a_block(first, bytes);
}
std::size_t live_blocks() {
  Lock lock(runtime().mutex);
  return runtime().memory.blocks();
}
std::size_t pinned_bytes() {
  Lock lock(runtime().mutex);
  std::size_t bytes = 0;
  for (const auto& [start, size] : runtime().pinned) bytes += size;
  return bytes;
}

}  // namespace fovea::cuda_on_host

using namespace fovea::cuda_on_host;

// ---- Errors ----

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return runtime().fault.c_str();
    default:
      return "unrecognized error code";
  }
}

cudaError_t cudaGetLastError() { return std::exchange(runtime().last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return runtime().last_error; }

// ---- The device ----

namespace {

cudaError_t status_of_device(int device) {
  return runtime().remember(0 <= device && device < machine().devices ? cudaSuccess : cudaErrorInvalidDevice);
}

}  // namespace

cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* number) {
  *number = 0;
  // A driver works with the runtimes of its major version, also with newer ones.
  if (machine().driver / 1000 < CUDART_VERSION / 1000) return runtime().remember(cudaErrorInsufficientDriver);
  if (machine().devices == 0) return runtime().remember(cudaErrorNoDevice);
  *number = machine().devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  watch_faults();
  return status_of_device(device);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const int architecture = machine().architecture;
  *properties = {"CUDA kernels on the host", machine().memory, architecture / 10, architecture % 10, 2,
                 most_shared_bytes};
  return status_of_device(device);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 2 : static_cast<int>(most_shared_bytes);
  return status_of_device(device);
}

cudaError_t cudaDeviceSynchronize() {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  ++own.synchronizations;
  return own.run_until([&] {
    return std::all_of(own.streams.begin(), own.streams.end(), [](auto* stream) { return stream->queue.empty(); });
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  Lock lock(runtime().mutex);
  *total = machine().memory;
  *free = machine().memory - runtime().memory.bytes_in_use();
  return cudaSuccess;
}

// ---- Streams and events ----

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  watch_faults();
  Lock lock(runtime().mutex);
  *stream = new CUstream_st;
  runtime().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  ++own.synchronizations;
  return own.run_until([stream] { return stream->queue.empty(); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  cudaError_t status = own.run_until([stream] { return stream->queue.empty(); });
  own.streams.erase(stream);
  delete stream;
  return status;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  cudaError_t status = own.run_until([event] { return event->completed == event->recorded; });
  delete event;
  return status;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Lock lock(runtime().mutex);
  const std::uint64_t number = ++event->recorded;
  runtime().enqueue(stream, {"cudaEventRecord", [event, number] {
                               event->completed = std::max(event->completed, number);
                               event->time = std::chrono::steady_clock::now();
                             }});
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Lock lock(runtime().mutex);
  if (event->recorded > 0) runtime().enqueue(stream, {"cudaStreamWaitEvent", {}, event, event->recorded});
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  ++own.synchronizations;
  return own.run_until([event] { return event->completed == event->recorded; });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  for (cudaEvent_t event : {begin, end})
    if (event->recorded == 0 || event->completed != event->recorded) return own.remember(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock(runtime().mutex);
  return event->completed == event->recorded ? cudaSuccess : cudaErrorNotReady;
}

// ---- Memory ----

cudaError_t cudaMallocAsync(void** block, std::size_t bytes, cudaStream_t stream) {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  *block = own.memory.allocate(bytes);
  if (!*block) {  // blocks whose release waits in the queue come back first, as the device's own allocator has it
    own.remember(own.run_until([stream] { return stream->queue.empty(); }));
    *block = own.memory.allocate(bytes);
  }
  if (!*block) return own.remember(cudaErrorMemoryAllocation);
  own.pool_blocks[*block] = bytes;
  own.pool_in_use += bytes;
  own.pool_reserved = std::max(own.pool_reserved, own.pool_in_use);
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* block, cudaStream_t stream) {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  if (auto found = own.pool_blocks.find(block); found != own.pool_blocks.end()) {
    own.pool_in_use -= found->second;
    own.pool_blocks.erase(found);
  }
  own.enqueue(stream, {"cudaFreeAsync", [block] {
                         fovea::require(runtime().memory.deallocate(block),
                                        "cudaFreeAsync: no block of device memory begins at this address");
                       }});
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** block, std::size_t bytes) {
  Lock lock(runtime().mutex);
  *block = std::malloc(std::max<std::size_t>(bytes, 1));
  if (!*block) return runtime().remember(cudaErrorMemoryAllocation);
  runtime().pinned[*block] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* block) {
  Lock lock(runtime().mutex);
  if (runtime().pinned.erase(block) == 0) return runtime().remember(cudaErrorInvalidValue);
  std::free(block);
  return cudaSuccess;
}

namespace {

/// Whether the bytes lie in pinned host memory, which a copy reads when it runs; from other host memory CUDA takes the
/// bytes before the call returns.
bool is_pinned(const void* first) {
  auto after = runtime().pinned.upper_bound(first);
  if (after == runtime().pinned.begin()) return false;
  const auto& [start, bytes] = *std::prev(after);
  return static_cast<const std::byte*>(first) < static_cast<const std::byte*>(start) + bytes;
}

bool is_usable(const void* first, std::size_t bytes) {
  const DeviceMemory& memory = runtime().memory;
  return !memory.contains(first) || memory.is_inside_a_block(first, bytes);
}

}  // namespace

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  if (!is_usable(to, bytes) || !is_usable(from, bytes)) return own.remember(cudaErrorInvalidValue);
  if (own.memory.contains(from) || is_pinned(from)) {
    own.enqueue(stream, {"cudaMemcpyAsync", [=] { std::memmove(to, from, bytes); }});
  } else {
    const auto* first = static_cast<const std::byte*>(from);
    own.enqueue(stream, {"cudaMemcpyAsync", [=, kept = std::vector<std::byte>(first, first + bytes)] {
                           std::memcpy(to, kept.data(), kept.size());
                         }});
  }
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* block, int value, std::size_t bytes, cudaStream_t stream) {
  Runtime& own = runtime();
  Lock lock(own.mutex);
  if (!is_usable(block, bytes)) return own.remember(cudaErrorInvalidValue);
  own.enqueue(stream, {"cudaMemsetAsync", [=] { std::memset(block, value, bytes); }});
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  *pool = nullptr;
  return status_of_device(device);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  Lock lock(runtime().mutex);
  *static_cast<std::uint64_t*>(value) = runtime().pool_reserved;
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) {
  Lock lock(runtime().mutex);
  runtime().pool_reserved = runtime().pool_in_use;
  return cudaSuccess;
}
