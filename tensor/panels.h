/// Products with a matrix that is packed once and multiplied often: the inner products of fused kernels, which run
/// inside a parallel loop and on memory of their own.
#pragma once
#include <algorithm>
#include <cstdint>

#include "tensor/packing.h"
#include "tensor/register_tile.h"

namespace fovea {

/// b [k, n] in panels of at most three vectors of columns: each holds its k rows one after the other, filled up with
/// zeros to whole vectors. The memory is the caller's: size(k, n) elements.
template <class T>
class Panels {
 public:
  Panels() = default;
  Panels(T* memory, std::int64_t k, std::int64_t n) : data_(memory), own_(memory), k_(k), n_(n) {}
  /// Not copied but read where it lies: for a matrix that is multiplied once. Its rows are contiguous and fill vectors.
  Panels(MatrixView<const T> b, std::int64_t k, std::int64_t n) : data_(b.data), row_(b.row_stride), k_(k), n_(n) {}
  static bool readable(MatrixView<const T> b, std::int64_t n) { return b.column_stride == 1 && n % Vec<T>::lanes == 0; }

  static constexpr std::int64_t padded(std::int64_t n) { return vectors(n) * Vec<T>::lanes; }
  static constexpr std::int64_t size(std::int64_t k, std::int64_t n) { return k * padded(n); }

  /// Copies b in; any strides.
  void pack(MatrixView<const T> b) {
    for (std::int64_t panel = 0; panel < count(); ++panel) {
      std::int64_t column = begin(panel), width = begin(panel + 1) - column;
      fovea::pack(b.from(0, column), k_, std::min(width, n_ - column), own_ + column * k_, width);
    }
  }

  /// c = alpha a b + beta c for m rows of a and c, over rows [k_begin, k_end) of b, a's columns counted like them.
  /// Only panels that overlap columns [n_begin, n_end) are computed, those whole; beta = 0 does not read c.
  struct Part {
    std::int64_t k_begin, k_end, n_begin, n_end;
  };
  void multiply(std::int64_t m, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c, const Part& part) const {
    for (std::int64_t panel = 0; panel < count(); ++panel) {
      if (begin(panel + 1) <= part.n_begin || part.n_end <= begin(panel)) continue;
      T keep = beta;
      std::int64_t k = part.k_begin;
      do {  // once even for no rows: that leaves beta c
        multiply_panel(panel, m, alpha, a, keep, c, k, std::min(k + k_block, part.k_end));
        keep = 1;
        k += k_block;
      } while (k < part.k_end);
    }
  }
  void multiply(std::int64_t m, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c) const {
    multiply(m, alpha, a, beta, c, {0, k_, 0, n_});
  }

 private:
  static constexpr std::int64_t widest = vector_registers == 32 ? 3 : 2;  // vectors: they leave room for most rows
  static constexpr std::int64_t k_block = 8192 / vector_bytes;            // a panel's rows fill most of the first cache

  static constexpr std::int64_t vectors(std::int64_t n) { return (n + Vec<T>::lanes - 1) / Vec<T>::lanes; }
  std::int64_t count() const { return (vectors(n_) + widest - 1) / widest; }
  /// First column of a panel: their widths differ by at most one vector.
  std::int64_t begin(std::int64_t panel) const {
    std::int64_t all = vectors(n_), panels = count();
    return (panel * (all / panels) + std::min(panel, all % panels)) * Vec<T>::lanes;
  }

  void multiply_panel(std::int64_t panel, std::int64_t m, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c,
                      std::int64_t k_begin, std::int64_t k_end) const {
    std::int64_t column = begin(panel), width = begin(panel + 1) - column;
    const int tile_vectors = static_cast<int>(width / Vec<T>::lanes);
    const auto& kernels = tile_kernels<T>[static_cast<std::size_t>(tile_vectors - 1)];
    const std::int64_t tallest = tile_rows(tile_vectors), tiles = (m + tallest - 1) / tallest;
    RegisterTile<T> tile{k_end - k_begin,
                         nullptr,
                         a.row_stride,
                         a.column_stride,
                         row_ ? data_ + k_begin * row_ + column : data_ + column * k_ + k_begin * width,
                         row_ ? row_ : width,
                         nullptr,
                         c.row_stride,
                         static_cast<int>(std::min(width, n_ - column)),
                         alpha,
                         beta};
    for (std::int64_t t = 0, row = 0; t < tiles; ++t) {
      std::int64_t rows = m / tiles + (t < m % tiles ? 1 : 0);
      tile.a = a.at(row, k_begin);
      tile.c = c.at(row, column);
      kernels[static_cast<std::size_t>(rows - 1)](tile);
      row += rows;
    }
  }

  const T* data_ = nullptr;
  T* own_ = nullptr;
  std::int64_t row_ = 0;  ///< from row to row of a matrix that is not copied; 0: packed
  std::int64_t k_ = 0, n_ = 0;
};

}  // namespace fovea
