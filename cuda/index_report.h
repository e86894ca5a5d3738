/// Errors of indices that a kernel finds to be outside of their range. The host does not wait for a check; it sees the
/// report when it next waits for the stream.
#pragma once
#include "tensor/requirements.h"

namespace fovea::cuda {

/// The first index that was outside of its range since the host last looked. A kernel writes the other members before
/// `is_written`, with a fence between them, and the host reads them after it.
struct IndexReport {
  RangeCheck check;
  std::int64_t position, value;
  unsigned is_written;
};

/// Returns the report that kernels write, in the host's memory.
IndexReport* index_report();

}  // namespace fovea::cuda
