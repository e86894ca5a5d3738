/// Memory that a thread will need soon, brought into the cache a few lines at a time beside its products.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fovea {

/// A list of matrices whose rows lie far apart. The processor foresees what is read in order of addresses; rows of
/// heads that lie side by side it does not, and reads them at a third of the memory's rate.
class RowsAhead {
 public:
  /// In bytes.
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

  /// The next rows, as many as have so many lines.
  void fetch(std::int64_t lines);
  void fetch_all() { fetch(std::int64_t{1} << 40); }

 private:
  std::vector<Matrix> matrices_;
  std::size_t matrix_ = 0;  ///< of which row_ is next
  std::int64_t row_ = 0;
};

}  // namespace fovea
