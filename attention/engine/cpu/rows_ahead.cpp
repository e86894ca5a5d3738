#include "attention/engine/cpu/rows_ahead.h"

#include <algorithm>

namespace fovea {

void RowsAhead::fetch(std::int64_t lines) {
  constexpr std::int64_t line = 64;
  while (lines > 0 && matrix_ < matrices_.size()) {
    const Matrix& from = matrices_[matrix_];
    const std::int64_t lines_of_row = (from.row_bytes + line - 1) / line,
                       end = std::min(from.rows, row_ + (lines + lines_of_row - 1) / lines_of_row);
    lines -= (end - row_) * lines_of_row;
    const std::byte* row = from.data + row_ * from.row_stride;
    for (; row_ < end; ++row_, row += from.row_stride)
      for (std::int64_t k = 0; k < from.row_bytes; k += line) __builtin_prefetch(row + k, 0, 2);
    if (row_ < from.rows) return;
    row_ = 0;
    ++matrix_;
  }
}

}  // namespace fovea
