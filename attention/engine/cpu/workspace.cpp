#include "attention/engine/cpu/workspace.h"

#include <algorithm>

namespace fovea {

/// The pieces behind the current one hold nothing. Where the first of them is too small they are given up for one new
/// piece, half as large again as it must be: a loop that takes a little more each time would otherwise leave a piece
/// for every size behind.
void Workspace::next_piece(std::size_t bytes) {
  constexpr std::size_t least = 64 << 10;
  const std::size_t next = at_.piece < pieces_.size() && at_.used > 0 ? at_.piece + 1 : at_.piece;
  at_ = {next, 0};
  if (next < pieces_.size() && bytes <= pieces_[next].bytes) return;
  pieces_.resize(std::min(next, pieces_.size()));
  bytes = std::max(bytes + bytes / 2, least);
  pieces_.push_back({Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8), bytes});
}

}  // namespace fovea
