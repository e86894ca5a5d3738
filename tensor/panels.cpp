#include "tensor/panels.h"

namespace fovea {

template <class T>
void Panels<T>::pack(MatrixView<const T> b) {
  for (std::int64_t panel = 0; panel < count(); ++panel) {
    std::int64_t column = begin(panel), width = begin(panel + 1) - column;
    fovea::pack(b.from(0, column), k_, std::min(width, n_ - column), own_ + column * k_, width);
  }
}

template <class T>
void Panels<T>::multiply(std::int64_t m, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c,
                         const Part& part) const {
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

template <class T>
void Panels<T>::multiply_panel(std::int64_t panel, std::int64_t m, T alpha, MatrixView<const T> a, T beta,
                               MatrixView<T> c, std::int64_t k_begin, std::int64_t k_end) const {
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
  constexpr std::int64_t line_of_work = 16;  // multiply-adds of a vector: the memory has a line by then
  for (std::int64_t t = 0, row = 0; t < tiles; ++t) {
    std::int64_t rows = m / tiles + (t < m % tiles ? 1 : 0);
    if (ahead_) ahead_->fetch(tile.k * rows * tile_vectors / line_of_work);
    tile.a = a.at(row, k_begin);
    tile.c = c.at(row, column);
    kernels[static_cast<std::size_t>(rows - 1)](tile);
    row += rows;
  }
}

// Here alone: each has a kernel for every size of a tile.
template class Panels<float>;
template class Panels<double>;

}  // namespace fovea
