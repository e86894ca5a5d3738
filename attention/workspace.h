/// A thread's memory for one pass over strips: taken in order, given back all at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/cpu/rows_ahead.h"
#include "tensor/gemm.h"
#include "tensor/tensor.h"

namespace fovea {

/// It grows by pieces when what is taken does not fit: who takes memory need not say so anywhere else. The same takes
/// after a mark find the same memory again, so that a loop grows it in its first turn alone.
class Workspace {
 public:
  struct Mark {
    std::size_t piece, used;
  };

  /// Not initialised, at the start of a cache line; to be had until a mark before it is given back.
  template <class T>
  T* take(std::int64_t elements) {
    const std::size_t bytes = (static_cast<std::size_t>(elements) * sizeof(T) + 63) / 64 * 64;
    if (at_.piece == pieces_.size() || at_.used + bytes > pieces_[at_.piece].bytes) next_piece(bytes);
    return reinterpret_cast<T*>(pieces_[at_.piece].memory.address() + std::exchange(at_.used, at_.used + bytes));
  }
  Mark mark() const { return at_; }
  void give_back(Mark mark) { at_ = mark; }

  RowsAhead ahead;                      ///< what the thread will need next
  Precision products = Precision::f32;  ///< of what is packed in it

 private:
  struct Piece {
    Tensor memory;
    std::size_t bytes;
  };
  /// Goes on to the next piece that has so much, or to a new one.
  void next_piece(std::size_t bytes);

  std::vector<Piece> pieces_;
  Mark at_ = {0, 0};
};

/// What is taken while one of these lives is given back at its end.
class WorkspaceScope {
 public:
  explicit WorkspaceScope(Workspace& space) : space_(space), mark_(space.mark()) {}
  ~WorkspaceScope() { space_.give_back(mark_); }
  WorkspaceScope(const WorkspaceScope&) = delete;
  WorkspaceScope& operator=(const WorkspaceScope&) = delete;

 private:
  Workspace& space_;
  Workspace::Mark mark_;
};

}  // namespace fovea
