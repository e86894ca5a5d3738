#include "attention/engine/cpu/workspace.h"

#include <algorithm>

namespace fovea {

/// The pieces behind the current one hold nothing. If the first of them is too small, one new piece replaces them. It
/// is half as large again as it must be and twice as large as the piece that it replaces, so that a loop that takes a
/// little more each time outgrows few pieces, and these are smaller together than the new one.
void Workspace::next_piece(std::size_t bytes) {
  constexpr std::size_t least = 64 << 10;
  const std::size_t next = at_.piece < pieces_.size() && at_.used > 0 ? at_.piece + 1 : at_.piece;
  at_ = {next, 0};
  if (next < pieces_.size() && bytes <= pieces_[next].bytes) return;
  bytes = std::max(bytes + bytes / 2, least);
  for (std::size_t k = next; k < pieces_.size(); ++k) {
    bytes = std::max(bytes, 2 * pieces_[k].bytes);
    outgrown_.push_back(pieces_[k].memory);
  }
  pieces_.resize(std::min(next, pieces_.size()));
  pieces_.push_back({Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8), bytes});
}

}  // namespace fovea
