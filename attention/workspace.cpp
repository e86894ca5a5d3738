#include "attention/workspace.h"

#include <algorithm>

namespace fovea {

std::byte* Workspace::take_bytes(std::size_t bytes) {
  constexpr std::size_t least = 64 << 10;  // a piece is at least as long
  while (at_.piece < pieces_.size() && at_.used + bytes > pieces_[at_.piece].bytes()) at_ = {at_.piece + 1, 0};
  if (at_.piece == pieces_.size())
    pieces_.push_back(Tensor::empty({static_cast<std::int64_t>(std::max(bytes, least))}, DType::u8));
  std::byte* taken = pieces_[at_.piece].address() + at_.used;
  at_.used += bytes;
  return taken;
}

}  // namespace fovea
