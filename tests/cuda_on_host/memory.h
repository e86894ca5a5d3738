/// Device memory of the host that runs CUDA kernels.
///
/// It lies in a range of addresses of its own, which nothing may read or write but kernels and copies while they run:
/// host code that touches it is stopped with one line. Each block ends at a page that is never mapped, is filled with
/// set bits (NaN for floating-point numbers) before its first use, and is surrounded by bytes that must not change.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fovea::cuda_on_host {

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t total);

  /// Null where less than `bytes` are left.
  std::byte* allocate(std::size_t bytes);
  /// False where no block begins there.
  bool deallocate(const void* block);

  bool contains(const void* address) const { return begin_ <= address && address < begin_ + range; }
  /// Whether all bytes belong to one block.
  bool is_inside_a_block(const void* first, std::size_t bytes) const;
  /// "byte 1024 of a block of 1024 bytes", "12 bytes before a block of 64 bytes", "memory that was freed".
  std::string describe(const void* address) const;

  std::size_t bytes_in_use() const { return in_use_; }
  std::size_t blocks() const { return blocks_.size(); }

  void unlock();  ///< kernels and copies of this thread may touch the memory
  void lock();    ///< nothing may
  bool is_unlocked() const { return unlocked_; }

  /// All bytes of all blocks; the order of blocks is that of their addresses.
  std::vector<std::byte> contents() const;
  void restore(const std::vector<std::byte>& contents);
  /// Where `contents` differ from the memory: "bytes 4 to 7 of a block of 64 bytes"; empty where they agree.
  std::string difference(const std::vector<std::byte>& contents) const;
  /// Where the surroundings of a block were written, in words, and empty where none were. Makes them whole again.
  std::string repair();

 private:
  static constexpr std::size_t range = std::size_t{1} << 40, page = 4096;

  struct Block {
    std::size_t bytes, pages;  ///< asked for, and mapped, up to the guard page
    std::byte* first_page;
  };

  std::size_t total_;  ///< bytes that the device has
  /// The processor's key of the memory, with which one instruction locks or unlocks all blocks; -1 where processor or
  /// system have none, so that each block's pages are protected by a system call.
  int key_;
  std::byte* begin_;
  std::byte* next_;
  std::size_t in_use_ = 0;
  bool unlocked_ = false;
  std::map<std::byte*, Block> blocks_;  ///< by the address that was handed out
};

}  // namespace fovea::cuda_on_host
