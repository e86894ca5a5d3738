// NCCL's sum over processes on the host: operations in a stream's queue that add in shared memory. Each process adds
// the shares beginning with the one after its own, and the last process's result is everybody's: an order that is not
// that of ranks, as NCCL's is not.
#include "tests/cuda_on_host/nccl.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tensor/error.h"
#include "tests/cuda_on_host/runtime.h"

namespace {

constexpr std::size_t slot_bytes = std::size_t{1} << 16;

/// The beginning of the memory that the processes share. A slot for each process's numbers follows.
struct SharedMemory {
  std::atomic<int> arrived, turns;
};

}  // namespace

struct ncclComm {
  int ranks = 0, rank = 0;
  std::string name;
  SharedMemory* shared = nullptr;

  std::size_t bytes() const { return sizeof(SharedMemory) + static_cast<std::size_t>(ranks) * slot_bytes; }
  std::byte* slot(int of) const {
    return reinterpret_cast<std::byte*>(shared + 1) + static_cast<std::size_t>(of) * slot_bytes;
  }
  /// Waits until all processes have come here.
  void meet() const {
    const int turn = shared->turns.load();
    if (shared->arrived.fetch_add(1) + 1 == ranks) {
      shared->arrived = 0;
      shared->turns = turn + 1;
      return;
    }
    const auto began = std::chrono::steady_clock::now();
    while (shared->turns.load() == turn) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      fovea::require(std::chrono::steady_clock::now() - began < std::chrono::seconds(120),
                     "ncclAllReduce: another process does not take part");
    }
  }

  template <class T>
  void add(T* x, std::size_t count) const {
    constexpr std::size_t at_once = slot_bytes / sizeof(T);
    for (std::size_t first = 0; first < count; first += at_once) {
      const std::size_t n = std::min(at_once, count - first);
      std::memcpy(slot(rank), x + first, n * sizeof(T));
      meet();
      std::memset(x + first, 0, n * sizeof(T));
      for (int step = 1; step <= ranks; ++step) {  // the last process, the first one, the second one, ...
        const T* share = reinterpret_cast<const T*>(slot((ranks - 2 + step) % ranks));
        for (std::size_t k = 0; k < n; ++k) x[first + k] += share[k];
      }
      meet();
    }
  }
};

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "success" : result == ncclSystemError ? "a system call failed" : "invalid argument";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  const std::string name = "/fovea-nccl-" + std::to_string(::getpid());
  ::shm_unlink(name.c_str());  // of a process with the same number that was killed
  name.copy(id->internal, sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank) {
  if (ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  auto* made = new ncclComm{ranks, rank, id.internal};
  const int file = ::shm_open(made->name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(made->bytes())) != 0) return ncclSystemError;
  void* memory = ::mmap(nullptr, made->bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) return ncclSystemError;
  made->shared = static_cast<SharedMemory*>(memory);  // new pages are zeros
  made->meet();
  ::shm_unlink(made->name.c_str());  // the memory stays until all have left
  *communicator = made;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  ::munmap(communicator->shared, communicator->bytes());
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t communicator, cudaStream_t stream) {
  if (from != to) return ncclInvalidArgument;  // fovea sums in place
  fovea::cuda_on_host::enqueue(stream, "all_reduce", [=] {
    type == ncclDouble ? communicator->add(static_cast<double*>(to), count)
                       : communicator->add(static_cast<float*>(to), count);
  });
  // A GPU adds while the host waits for a message of another process. Here that process would wait for this one's share
  // meanwhile, so the sum is made at once.
  fovea::cuda_on_host::drain(stream);
  return ncclSuccess;
}
