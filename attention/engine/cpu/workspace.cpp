#include "attention/engine/cpu/workspace.h"

#include <algorithm>

namespace fovea {

void Workspace::next_piece(std::size_t bytes) {
  constexpr std::size_t least = 64 << 10;  // a piece is at least as long
  while (at_.piece < pieces_.size() && at_.used + bytes > pieces_[at_.piece].bytes) at_ = {at_.piece + 1, 0};
  if (at_.piece < pieces_.size()) return;
  bytes = std::max(bytes, least);
  pieces_.push_back({Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8), bytes});
}

}  // namespace fovea
