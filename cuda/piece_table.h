/// Many tensors that one kernel takes: each block computes a piece of one of them.
#pragma once
#include <array>
#include <cstdint>

#include <cuda_runtime.h>

namespace fovea::cuda {

/// Groups of `operands` tensors that lie contiguous in memory, as a kernel takes them by value. Each block has at most
/// `piece_elements` elements of one group.
template <class T, int operands, std::int64_t piece_elements>
struct PieceTable {
  /// As many as fit into 12 KiB of the 32 KiB that a kernel's parameters may take.
  static constexpr int most = (12 << 10) / (8 * operands + 12);

  int groups = 0;
  unsigned first_block[most + 1] = {};
  std::int64_t count[most];
  T* first[most][operands];

  void add(std::int64_t elements, const std::array<T*, operands>& addresses) {
    count[groups] = elements;
    for (std::size_t k = 0; k < operands; ++k) first[groups][k] = addresses[k];
    first_block[groups + 1] =
        first_block[groups] + static_cast<unsigned>((elements + piece_elements - 1) / piece_elements);
    ++groups;
  }
  unsigned blocks() const { return first_block[groups]; }

  /// The elements begin ≤ e < begin + count of each operand of a group.
  struct Piece {
    int group;
    std::int64_t begin, count;
  };
  /// The piece of this block.
  __device__ Piece piece() const {
    int group = 0, end = groups;
    while (end - group > 1) {
      const int middle = (group + end) / 2;
      (first_block[middle] <= blockIdx.x ? group : end) = middle;
    }
    const std::int64_t begin = (blockIdx.x - first_block[group]) * piece_elements, left = count[group] - begin;
    return {group, begin, left < piece_elements ? left : piece_elements};
  }
};

}  // namespace fovea::cuda
