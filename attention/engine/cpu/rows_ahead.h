/// Software prefetching: loads matrices that a thread will need soon into the cache, a few cache lines at a time, while
/// the thread computes products.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fovea {

/// A list of matrices to prefetch, whose rows lie far apart. The processor's own prefetcher follows reads of
/// consecutive addresses, but not the rows of one attention head when the heads lie side by side; without prefetching,
/// these are read at a third of the memory's bandwidth.
class RowsAhead {
 public:
  /// A matrix to prefetch; `row_stride` and `row_bytes`, the used length of a row, are in bytes.
  struct Matrix {
    const std::byte* data;
    std::int64_t row_stride, rows, row_bytes;
  };

  void clear() {
    matrices_.clear();
    matrix_ = 0;
    row_ = 0;
  }
  void add(const Matrix& matrix) {
    if (matrix.rows > 0 && matrix.row_bytes > 0) matrices_.push_back(matrix);
  }

  /// Prefetches the next rows of the list, until they make up at least `lines` cache lines.
  void fetch(std::int64_t lines);
  void fetch_all() { fetch(std::int64_t{1} << 40); }

 private:
  std::vector<Matrix> matrices_;
  std::size_t matrix_ = 0;  ///< the matrix to prefetch from; row_ is its next row
  std::int64_t row_ = 0;
};

}  // namespace fovea
