/// How pointwise formulas read rows of pairs and captures in the CPU's memory.
#pragma once
#include <cstdint>

namespace fovea {

/// Rows of pairs of queries and keys. Row r belongs to one query and has the keys first[r] ≤ j < end[r].
template <class T>
struct PairRows {
  std::int64_t count;   ///< number of rows
  std::int64_t stride;  ///< from row to row, in elements
  const std::int64_t *first, *end;
  std::int64_t query_position;  ///< position of the query of row 0, in tokens; each next row's is one more
};

/// A capture as one row reads it.
template <class T>
struct CaptureRow {
  const T* numbers;  ///< one number, or [J]: one for each key
  T* gradients;      ///< the same for the gradient, which is added to; null: it is not wanted
};

}  // namespace fovea
