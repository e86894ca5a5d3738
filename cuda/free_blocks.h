/// Freed blocks of the GPU's memory that wait for new tensors. A call of CUDA for each tensor would cost the host more
/// than many a kernel's launch.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <unordered_map>
#include <vector>

namespace fovea::cuda {

/// All blocks are used in one stream only: work that is appended after a block was freed runs after all work that used
/// it before.
class FreeBlocks {
 public:
  /// Larger blocks are not kept. The work on so many bytes takes longer than a call for their memory, and their sizes
  /// often change with the lengths of a batch.
  static constexpr std::size_t largest = std::size_t{32} << 20;

  /// `most` is the largest number of bytes that all kept blocks may have together.
  explicit FreeBlocks(std::size_t most) : most_(most) {}

  /// The size of the blocks that serve tensors of so many bytes: at least 512 bytes, then 8 sizes from each power of
  /// two to the next.
  static std::size_t size_for(std::size_t bytes) {
    constexpr std::size_t smallest = 512;
    if (bytes > largest) return bytes;
    const std::size_t step = std::max(std::bit_floor(bytes) / 8, smallest);
    return std::max((bytes + step - 1) / step * step, smallest);
  }

  /// Returns a kept block of this size; null if there is none.
  std::byte* take(std::size_t size) {
    const auto found = blocks_.find(size);
    if (found == blocks_.end() || found->second.empty()) return nullptr;
    std::byte* block = found->second.back();
    found->second.pop_back();
    bytes_ -= size;
    return block;
  }

  /// Keeps a freed block, unless it is too large; returns whether it does. If there would be too many bytes, calls
  /// release() for all kept blocks first: sizes that are no longer asked for would otherwise stay for ever.
  template <class Release>
  bool keep(std::byte* block, std::size_t size, const Release& release) {
    if (size > std::min(largest, most_)) return false;
    if (bytes_ + size > most_) release_all(release);
    blocks_[size].push_back(block);
    bytes_ += size;
    return true;
  }

  template <class Release>
  void release_all(const Release& release) {
    for (auto& [size, blocks] : blocks_) {
      for (std::byte* block : blocks) release(block);
      blocks.clear();
    }
    bytes_ = 0;
  }

 private:
  std::unordered_map<std::size_t, std::vector<std::byte*>> blocks_;  ///< by their size
  std::size_t most_, bytes_ = 0;
};

}  // namespace fovea::cuda
