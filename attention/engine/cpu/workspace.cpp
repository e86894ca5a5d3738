#include "attention/engine/cpu/workspace.h"

#include <algorithm>

namespace fovea {

/// The chunks behind the current one hold nothing. If the first of them is too small, one new chunk replaces them. It
/// is half as large again as it must be and twice as large as the chunk that it replaces, so that a loop that takes a
/// little more each time outgrows few chunks, and these are smaller together than the new one.
void Workspace::next_chunk(std::size_t bytes) {
  constexpr std::size_t least = 64 << 10;
  const std::size_t next = at_.chunk < chunks_.size() && at_.used > 0 ? at_.chunk + 1 : at_.chunk;
  at_ = {next, 0};
  if (next < chunks_.size() && bytes <= chunks_[next].bytes) return;
  bytes = std::max(bytes + bytes / 2, least);
  for (std::size_t k = next; k < chunks_.size(); ++k) {
    bytes = std::max(bytes, 2 * chunks_[k].bytes);
    outgrown_.push_back(chunks_[k].memory);
  }
  chunks_.resize(std::min(next, chunks_.size()));
  chunks_.push_back({Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8), bytes});
}

}  // namespace fovea
