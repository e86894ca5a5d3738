/// Temporary memory of one thread, allocated as a stack.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "attention/engine/cpu/rows_ahead.h"
#include "tensor/gemm.h"
#include "tensor/tensor.h"

namespace fovea {

/// A stack of memory that grows by chunks when needed. Sizes need not be known before. A loop that returns to the same
/// mark and takes the same sizes gets the same memory, so that only its first iteration can allocate. No memory goes
/// back to the allocator before the workspace ends: how many blocks a thread holds then depends on its own work alone,
/// not on when other threads take theirs.
class Workspace {
 public:
  struct Mark {
    std::size_t chunk, used;
  };

  /// Uninitialised memory for `elements` elements, aligned to 64 bytes. Valid until give_back() of an earlier mark.
  template <class T>
  T* take(std::int64_t elements) {
    const std::size_t bytes = (static_cast<std::size_t>(elements) * sizeof(T) + 63) / 64 * 64;
    if (at_.chunk == chunks_.size() || at_.used + bytes > chunks_[at_.chunk].bytes) next_chunk(bytes);
    return reinterpret_cast<T*>(chunks_[at_.chunk].memory.mutable_address() +
                                std::exchange(at_.used, at_.used + bytes));
  }
  Mark mark() const { return at_; }
  /// Releases all that was taken after `mark`.
  void give_back(Mark mark) { at_ = mark; }

  RowsAhead ahead;                      ///< memory that the thread will need next, to be prefetched
  Precision products = Precision::f32;  ///< of matrix products with operands packed in this memory

 private:
  struct Chunk {
    Tensor memory;
    std::size_t bytes;
  };
  /// Advances to the next chunk with `bytes` free bytes, or to a new one.
  void next_chunk(std::size_t bytes);

  std::vector<Chunk> chunks_;
  std::vector<Tensor> outgrown_;  ///< chunks that were too small
  Mark at_ = {0, 0};
};

/// Releases at its end all memory that was taken from the workspace during its lifetime.
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
