/// Memory: where a tensor lives, and the caching allocator behind it.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fovea {

enum class Device : std::uint8_t { cpu, cuda };

std::string_view name(Device device);
Device parse_device(std::string_view text);  ///< "cpu" or "cuda"; throws Error for anything else

/// A block of memory that tensors share. Blocks come from a cache per device and go back to it: a steady training step
/// asks the system for nothing.
class Storage {
 public:
  /// At least `bytes`, 64-byte aligned, not initialised. Throws Error when the device has no more.
  Storage(std::size_t bytes, Device device);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  /// Counts in-place changes, so that a backward rule can tell that a tensor it saved has changed since.
  std::atomic<std::uint64_t> version = 0;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_;
};

/// Counters of a device's allocator since the program began; the peak counts since reset_peak.
struct AllocatorStatistics {
  std::size_t bytes_in_use = 0;          ///< held by tensors now
  std::size_t peak_bytes = 0;            ///< largest bytes_in_use
  std::size_t bytes_cached = 0;          ///< free, kept for the next tensor
  std::uint64_t allocations = 0;         ///< blocks handed out
  std::uint64_t system_allocations = 0;  ///< of which the system had to give new memory
};

AllocatorStatistics allocator_statistics(Device device = Device::cpu);
void reset_peak(Device device = Device::cpu);
void release_cache(Device device = Device::cpu);  ///< gives cached blocks back to the system

}  // namespace fovea
