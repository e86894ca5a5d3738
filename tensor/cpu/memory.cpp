// The allocator of the CPU: it keeps freed blocks and hands them out again to the next tensor of their size.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/mman.h>

#include "tensor/kernels.h"
#include "tensor/support/machine_memory.h"

namespace fovea::cpu {

namespace {

constexpr std::size_t huge_page = std::size_t{1} << 21;

/// Rounds a number of bytes up to a block size. Above 256 bytes there are four block sizes per power of two, so that
/// tensors of similar sizes can use the same blocks, and at most a quarter more than needed is allocated. Smaller sizes
/// are multiples of 64.
std::size_t block_size(std::size_t bytes) {
  if (bytes <= 256) return std::max<std::size_t>((bytes + 63) / 64 * 64, 64);
  std::size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

constexpr double gibibyte = 1 << 30;

class CpuAllocator {
 public:
  std::byte* allocate(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    std::byte* block = cached_or_new(bytes);
    ++statistics_.allocations;
    statistics_.bytes_in_use += bytes;
    statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.bytes_in_use);
    return block;
  }

  void deallocate(std::byte* block, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    statistics_.bytes_in_use -= bytes;
    statistics_.bytes_cached += bytes;
    free_[bytes].push_back(block);
  }

  AllocatorStatistics statistics() {
    std::lock_guard lock(mutex_);
    return statistics_;
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    statistics_.peak_bytes = statistics_.bytes_in_use;
  }
  void release() {
    std::lock_guard lock(mutex_);
    release_locked();
  }

 private:
  /// Returns a block from the cache or, if there is none of that size, from the system. Throws Error if there is no
  /// memory for it; the counters of allocations do not change then.
  std::byte* cached_or_new(std::size_t bytes) {
    auto& free_blocks = free_[bytes];
    if (!free_blocks.empty()) {
      std::byte* block = free_blocks.back();
      free_blocks.pop_back();
      statistics_.bytes_cached -= bytes;
      return block;
    }
    std::byte* block = is_there(bytes) ? from_system(bytes) : nullptr;
    if (!block) {
      release_locked();
      block = is_there(bytes) ? from_system(bytes) : nullptr;
    }
    if (!block) {
      MachineMemory memory = machine_memory();
      fail("cpu: out of memory: asked for {:.1f} GiB, {:.1f} GiB free of {:.1f} GiB, fovea holds {:.1f} GiB",
           static_cast<double>(bytes) / gibibyte, static_cast<double>(memory.available) / gibibyte,
           static_cast<double>(memory.total) / gibibyte, static_cast<double>(statistics_.bytes_in_use) / gibibyte);
    }
    ++statistics_.system_allocations;
    return block;
  }

  /// Whether the machine has so many bytes available. The operating system grants more memory than it has, and kills a
  /// process that uses it, so the allocator checks. Because a check takes a while, there is one for every 64 MiB of new
  /// memory.
  bool is_there(std::size_t bytes) {
    constexpr std::size_t worth_asking = std::size_t{1} << 26;
    unasked_ += bytes;
    if (unasked_ < worth_asking) return true;
    MachineMemory memory = machine_memory();
    bool is_there =
        bytes <= memory.available && statistics_.bytes_in_use + bytes + statistics_.bytes_cached <= memory.total;
    if (is_there) unasked_ = 0;
    return is_there;
  }

  static std::byte* from_system(std::size_t bytes) {
    if (bytes < huge_page) return static_cast<std::byte*>(std::aligned_alloc(64, bytes));
    std::size_t rounded = (bytes + huge_page - 1) / huge_page * huge_page;
    void* block = rounded < bytes ? nullptr : std::aligned_alloc(huge_page, rounded);
    if (block) madvise(block, rounded, MADV_HUGEPAGE);  // fewer page faults and TLB misses; failure costs only speed
    return static_cast<std::byte*>(block);
  }

  void release_locked() {
    for (auto& [bytes, blocks] : free_) {
      for (std::byte* block : blocks) std::free(block);
      blocks.clear();
    }
    statistics_.bytes_cached = 0;
  }

  std::mutex mutex_;
  std::map<std::size_t, std::vector<std::byte*>> free_;
  std::size_t unasked_ = 0;  ///< bytes taken from the system since the last check of its memory
  AllocatorStatistics statistics_;
};

/// Returns the allocator. It is never destroyed, because tensors in static variables may outlive every other static
/// object.
CpuAllocator& cpu_allocator() {
  static auto* allocator = new CpuAllocator;
  return *allocator;
}

const Provide provide(Device::cpu, [](Kernels& table) {
  table.allocate = [](std::size_t bytes) { return cpu_allocator().allocate(block_size(bytes)); };
  table.deallocate = [](std::byte* block, std::size_t bytes) { cpu_allocator().deallocate(block, block_size(bytes)); };
  table.statistics = [] { return cpu_allocator().statistics(); };
  table.reset_peak = [] { cpu_allocator().reset_peak(); };
  table.release_cache = [] { cpu_allocator().release(); };
  table.upload = [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); };
  table.download = [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); };
  table.synchronizations = [] { return std::uint64_t{0}; };
  table.describe = [] { return fmt::format("{} threads", std::thread::hardware_concurrency()); };
});

}  // namespace
}  // namespace fovea::cpu
