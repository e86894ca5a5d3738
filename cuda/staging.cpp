// Pinned host memory through which bytes go to the device. The bytes are copied to a pinned block, from which the
// device fetches them when the stream gets there. An event behind the copy says when the block is free again.
#include "cuda/staging.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "cuda/stream.h"

namespace fovea::cuda {

namespace {

/// Copies of more bytes go in pieces: the device fetches one piece while the host prepares the next.
constexpr std::size_t smallest_block = std::size_t{4} << 10, largest_block = std::size_t{4} << 20;

/// A block of pinned memory, and the event that completes when the device has read it.
struct Block {
  std::size_t bytes = 0;
  void* memory = nullptr;
  cudaEvent_t was_read = nullptr;

  Block(std::size_t bytes, void* memory) : bytes(bytes), memory(memory) {
    check(cudaEventCreateWithFlags(&was_read, cudaEventDisableTiming), "cudaEventCreate");
  }
  bool is_free() const {
    const cudaError_t status = cudaEventQuery(was_read);
    if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
    return status == cudaSuccess;
  }
};

/// Returns null if the host has not enough memory that can be pinned.
void* pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMallocHost(&memory, bytes);
  if (status == cudaSuccess) return memory;
  if (status != cudaErrorMemoryAllocation) refuse(status, "cudaMallocHost");
  cudaGetLastError();  // clears the error
  return nullptr;
}

/// All blocks that are not being filled, by their size and then by the age of their copies.
class Staging {
 public:
  /// Returns a block of at least `bytes` bytes that no copy reads.
  Block take(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    const std::size_t size = std::bit_ceil(std::max(bytes, smallest_block));
    std::deque<Block>& blocks = blocks_[size];
    const bool is_full = allocated_ + size > most_staged_bytes;
    if (!blocks.empty() && is_full && !blocks.front().is_free()) wait_for_stream("upload");
    if (!blocks.empty() && blocks.front().is_free()) {
      const Block oldest = blocks.front();
      blocks.pop_front();
      return oldest;
    }
    void* memory = pinned_memory(size);
    if (!memory) {
      wait_for_stream("upload");
      release_free_blocks();
      memory = pinned_memory(size);
    }
    require(memory, "cuda: the host has no {} bytes to pin for copies to the GPU; {} bytes are pinned for them now",
            size, allocated_);
    allocated_ += size;
    return Block(size, memory);
  }

  /// Takes back a block behind whose last copy its event was recorded.
  void give_back(const Block& block) {
    std::lock_guard lock(mutex_);
    blocks_[block.bytes].push_back(block);
  }

  void release() {
    std::lock_guard lock(mutex_);
    release_free_blocks();
  }

 private:
  void release_free_blocks() {
    for (auto& [size, blocks] : blocks_)
      while (!blocks.empty() && blocks.front().is_free()) {
        cudaEventDestroy(blocks.front().was_read);
        cudaFreeHost(blocks.front().memory);
        allocated_ -= size;
        blocks.pop_front();
      }
  }

  std::mutex mutex_;
  std::map<std::size_t, std::deque<Block>> blocks_;
  std::size_t allocated_ = 0;  ///< bytes of all blocks, with those that are being filled
};

/// Never destroyed: copies may be under way when the program ends.
Staging& staging() {
  static auto* made = new Staging;
  return *made;
}

}  // namespace

void upload(void* to, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += largest_block) {
    const std::size_t piece = std::min(bytes - done, largest_block);
    const Block block = staging().take(piece);
    std::memcpy(block.memory, static_cast<const std::byte*>(from) + done, piece);
    check(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, block.memory, piece, cudaMemcpyHostToDevice, stream()),
          "upload");
    check(cudaEventRecord(block.was_read, stream()), "cudaEventRecord");
    staging().give_back(block);
    launched("upload", static_cast<std::int64_t>(piece));
  }
}

void release_staging() { staging().release(); }

}  // namespace fovea::cuda
