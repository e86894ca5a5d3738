/// How rows of query-key pairs and captures lie in the CPU's memory, for the loops of pointwise formulas.
#pragma once
#include <cstdint>

namespace fovea {

/// Rows of query-key pairs. Row r belongs to one query and has the keys first[r] ≤ j < end[r].
template <class T>
struct PairRows {
  std::int64_t count;   ///< number of rows
  std::int64_t stride;  ///< distance between the starts of two rows, in elements
  const std::int64_t *first, *end;
  std::int64_t query_position;  ///< position of row 0's query, in tokens; row r belongs to query_position + r
};

/// The part of a capture that belongs to one row.
template <class T>
struct CaptureRow {
  const T* numbers;  ///< one number for the row, or [J], one number for each key (is_per_key)
  T* gradients;      ///< where the gradient is added, in the same layout; null: no gradient is needed
};

}  // namespace fovea
