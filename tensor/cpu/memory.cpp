// The allocator of the CPU. It keeps freed blocks and hands them out again to the next tensor of their size. Where
// there is none, it merges the large free blocks to ranges of addresses, and takes a part of one.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else  // a compiler without sanitizers
#define ASAN_POISON_MEMORY_REGION(first, bytes) ((void)(first), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(first, bytes) ((void)(first), (void)(bytes))
#endif

#include "tensor/kernels.h"
#include "tensor/support/machine_memory.h"

namespace fovea::cpu {

namespace {

constexpr std::size_t huge_page = std::size_t{1} << 21;
/// Larger blocks are parts of ranges.
constexpr std::size_t large = std::size_t{1} << 20;

std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

/// Rounds a number of bytes up to a block size. Small blocks have four sizes per power of two above 256 bytes, so that
/// tensors of similar sizes can use the same blocks, and at most a quarter more than needed is allocated; below, their
/// sizes are multiples of 64. Those of large blocks are multiples of 64 KiB, so that no slivers stay between them.
std::size_t block_size(std::size_t bytes) {
  if (bytes > large) return round_up(bytes, large / 16);
  if (bytes <= 256) return std::max<std::size_t>(round_up(bytes, 64), 64);
  return round_up(bytes, std::bit_floor(bytes - 1) / 4);
}

/// The free ranges of the memory that large blocks use. Neighbours merge, and a block is a part of the smallest range
/// that is large enough. New memory is mapped after the memory mapped before, so that it extends a free range there:
/// tensors of growing sizes, one after the other, need no more memory than the largest.
class FreeRanges {
 public:
  /// Returns `bytes` of a free range; null if all are too small.
  std::byte* take(std::size_t bytes) {
    const auto found = by_size_.lower_bound({bytes, nullptr});
    if (found == by_size_.end()) return nullptr;
    const auto [size, first] = *found;
    by_size_.erase(found);
    by_address_.erase(first);
    if (size > bytes) add(first + bytes, size - bytes);
    return first;
  }

  void give(std::byte* first, std::size_t bytes) {
    auto absorb = [&](auto neighbour) {
      bytes += neighbour->second;
      by_size_.erase({neighbour->second, neighbour->first});
      return by_address_.erase(neighbour);
    };
    auto next = by_address_.lower_bound(first);
    if (next != by_address_.end() && next->first == first + bytes) next = absorb(next);
    if (next != by_address_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == first) first = previous->first, absorb(previous);
    }
    add(first, bytes);
  }

  /// The bytes of new memory that extend() needs before take(bytes) succeeds.
  std::size_t missing(std::size_t bytes) const {
    const auto after = by_address_.lower_bound(end_);
    const bool extends = after != by_address_.begin() && std::prev(after)->first + std::prev(after)->second == end_;
    return round_up(bytes - (extends ? std::prev(after)->second : 0), huge_page);
  }

  /// Maps the memory that is missing for `bytes` more, and returns its size; 0 if the system has none.
  std::size_t extend(std::size_t bytes) {
    std::size_t more = missing(bytes);
    std::byte* first = map(end_, more);
    if (first && first != end_ && more < bytes) {  // something else begins where the ranges end
      munmap(first, more);
      more = round_up(bytes, huge_page);
      first = map(nullptr, more);
    }
    if (!first) return 0;
    end_ = first + more;
    ASAN_POISON_MEMORY_REGION(first, more);
    give(first, more);
    return more;
  }

  /// Returns all free ranges to the system.
  void release() {
    for (const auto& [first, bytes] : by_address_) {
      ASAN_UNPOISON_MEMORY_REGION(first, bytes);  // others may get these addresses
      munmap(first, bytes);
      if (first + bytes == end_) end_ = first;
    }
    by_address_.clear();
    by_size_.clear();
  }

 private:
  void add(std::byte* first, std::size_t bytes) {
    by_address_[first] = bytes;
    by_size_.insert({bytes, first});
  }

  /// Maps memory, at `wanted` if nothing is there. Null if the system has none.
  static std::byte* map(std::byte* wanted, std::size_t bytes) {
    void* first = mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (first == MAP_FAILED) return nullptr;
    madvise(first, bytes, MADV_HUGEPAGE);  // fewer page faults and TLB misses; failure costs only speed
    return static_cast<std::byte*>(first);
  }

  std::map<std::byte*, std::size_t> by_address_;
  std::set<std::pair<std::size_t, std::byte*>> by_size_;
  /// The end of the memory mapped last. At first, an address far from those that the system chooses for other memory.
  std::byte* end_ = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 45);
};

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
    blocks_[bytes].push_back(block);
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
  /// Returns a block from the cache or, if there is none for it, from the system. Throws Error if there is no memory
  /// for it; the counters of allocations do not change then.
  std::byte* cached_or_new(std::size_t bytes) {
    std::byte* block = cached(bytes);
    if (!block) {
      if (!add_to_cache(bytes)) {
        release_locked();
        if (!add_to_cache(bytes)) refuse(bytes);
      }
      ++statistics_.system_allocations;
      block = cached(bytes);
    }
    statistics_.bytes_cached -= bytes;
    return block;
  }

  [[noreturn]] void refuse(std::size_t bytes) const {
    MachineMemory memory = machine_memory();
    fail("cpu: out of memory: asked for {:.1f} GiB, {:.1f} GiB free of {:.1f} GiB, fovea holds {:.1f} GiB",
         static_cast<double>(bytes) / gibibyte, static_cast<double>(memory.available) / gibibyte,
         static_cast<double>(memory.total) / gibibyte, static_cast<double>(statistics_.bytes_in_use) / gibibyte);
  }

  /// Takes a block from the cache; null if there is none for it. The block of this size that was freed last comes
  /// first, because the processor's caches may still have it.
  std::byte* cached(std::size_t bytes) {
    if (auto& blocks = blocks_[bytes]; !blocks.empty()) {
      std::byte* block = blocks.back();
      blocks.pop_back();
      return block;
    }
    if (bytes <= large) return nullptr;
    merge_large_blocks();
    return ranges_.take(bytes);
  }

  void merge_large_blocks() {
    const auto first = blocks_.upper_bound(large);
    for (auto size = first; size != blocks_.end(); ++size)
      for (std::byte* block : size->second) ranges_.give(block, size->first);
    blocks_.erase(first, blocks_.end());
  }

  /// Adds memory of the system for a block to the cache. Returns false if there is none.
  bool add_to_cache(std::size_t bytes) {
    if (!is_there(bytes > large ? ranges_.missing(bytes) : bytes)) return false;
    std::size_t added = bytes;
    if (bytes > large)
      added = ranges_.extend(bytes);
    else if (void* block = std::aligned_alloc(64, bytes))
      blocks_[bytes].push_back(static_cast<std::byte*>(block));
    else
      added = 0;
    statistics_.bytes_cached += added;
    return added > 0;
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

  void release_locked() {
    merge_large_blocks();
    ranges_.release();
    for (const auto& [bytes, blocks] : blocks_)
      for (std::byte* block : blocks) std::free(block);
    blocks_.clear();
    statistics_.bytes_cached = 0;
  }

  std::mutex mutex_;
  std::map<std::size_t, std::vector<std::byte*>> blocks_;  ///< free blocks, by their size
  FreeRanges ranges_;
  std::size_t unasked_ = 0;  ///< bytes taken from the system since the last check of its memory
  AllocatorStatistics statistics_;
};

/// Returns the allocator. It is never destroyed, because tensors in static variables may outlive every other static
/// object.
CpuAllocator& cpu_allocator() {
  static auto* allocator = new CpuAllocator;
  return *allocator;
}

// The address sanitizer, in builds that have it, is told which bytes of a block a tensor holds: all others are
// poisoned, so that it sees who reads behind a tensor or one that is gone. Small blocks have its own margins too; a
// large one that its tensor fills has none.
const Provide provide(Device::cpu, [](Kernels& table) {
  table.allocate = [](std::size_t bytes) {
    std::byte* block = cpu_allocator().allocate(block_size(bytes));
    ASAN_POISON_MEMORY_REGION(block, block_size(bytes));
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
    return block;
  };
  table.deallocate = [](std::byte* block, std::size_t bytes) {
    ASAN_POISON_MEMORY_REGION(block, block_size(bytes));
    cpu_allocator().deallocate(block, block_size(bytes));
  };
  table.statistics = [] { return cpu_allocator().statistics(); };
  table.reset_peak = [] { cpu_allocator().reset_peak(); };
  table.release_cache = [] { cpu_allocator().release(); };
  table.upload = [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); };
  table.download = [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); };
  table.copy_bytes = [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); };
  table.time = [](const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  table.synchronizations = [] { return std::uint64_t{0}; };
  table.launches = [] { return std::vector<LaunchCount>(); };
  table.describe = [] { return fmt::format("{} threads", std::thread::hardware_concurrency()); };
});

}  // namespace
}  // namespace fovea::cpu
