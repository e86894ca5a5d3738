/// Devices, the memory block of a tensor, and statistics of the caching allocators that memory blocks come from.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace fovea {

enum class Device : std::uint8_t { cpu, cuda };

std::string_view name(Device device);
/// Parses "cpu", "cuda" or "cuda:N", and throws Error for anything else. A process uses one GPU: "cuda:N" chooses
/// number N, counted from 0, and is an Error if the process has chosen or used another one; "cuda" is the chosen one,
/// or else number 0.
Device parse_device(std::string_view text);
/// Returns the number of the GPU that this process uses. After the first call no other one can be chosen.
int gpu_number();

/// A block of memory on a device, which several tensors may share. Freed blocks go to a cache of their device, from
/// which new blocks are taken, so that training steps of the same shapes allocate nothing from the system.
class Storage {
 public:
  /// Allocates at least `bytes` bytes, aligned to 64 bytes and not initialised. Throws Error if the device has not
  /// enough memory.
  Storage(std::size_t bytes, Device device);
  /// A block on the CPU that another library allocated, and that `owner` keeps alive.
  Storage(std::byte* data, std::size_t bytes, std::shared_ptr<const void> owner)
      : data_(data), bytes_(bytes), device_(Device::cpu), owner_(std::move(owner)) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  /// Counts in-place changes, so that the backward pass can detect that a tensor saved by the forward pass was changed.
  std::atomic<std::uint64_t> version = 0;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_;
  std::shared_ptr<const void> owner_;  ///< null: the block is this object's own
};

/// Counters of the allocator of one device since the program began; `peak_bytes` counts since reset_peak().
struct AllocatorStatistics {
  std::size_t bytes_in_use = 0;          ///< bytes that tensors hold now
  std::size_t peak_bytes = 0;            ///< largest value of bytes_in_use
  std::size_t bytes_cached = 0;          ///< bytes in freed blocks that are kept for new tensors
  std::uint64_t allocations = 0;         ///< number of blocks that were allocated, from the cache or from the system
  std::uint64_t system_allocations = 0;  ///< number of allocations that took new memory from the system
};

AllocatorStatistics allocator_statistics(Device device = Device::cpu);
void reset_peak(Device device = Device::cpu);
void release_cache(Device device = Device::cpu);  ///< returns the cached blocks to the system

}  // namespace fovea
