/// The products of cuBLAS's and cuBLASLt's stand-ins, with the CPU's tiles.
#pragma once
#include <vector>

#include "tensor/cpu/tiled_gemm.h"
#include "tensor/dtype.h"

namespace fovea::cuda_on_host {

/// A matrix as cuBLAS describes it: columns `leading` elements apart, transposed with CUBLAS_OP_T.
template <class T>
struct Matrix {
  const T* first;
  int rows, columns, leading;  ///< rows and columns after transposing
  bool transposed;

  /// Whether the distance of its columns is as large as a column.
  bool fits() const { return leading >= std::max(1, transposed ? columns : rows); }
  MatrixView<const T> view() const {
    return transposed ? MatrixView<const T>{first, leading, 1} : MatrixView<const T>{first, 1, leading};
  }
  /// Row by row in `storage`, each element rounded to bf16.
  MatrixView<const T> rounded(std::vector<T>& storage) const {
    storage.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    MatrixView<const T> from = view();
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        storage[static_cast<std::size_t>(i) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(j)] =
            static_cast<T>(float(bf16(static_cast<float>(*from.at(i, j)))));
    return {storage.data(), columns, 1};
  }
};

/// c = alpha a b + beta c. The tiles write rows: cᵀ = bᵀ aᵀ, whose rows are cuBLAS's columns.
template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, T* c, int ldc, T alpha, T beta, bool rounds) {
  std::vector<T> a_storage, b_storage;
  MatrixView<const T> left = rounds ? a.rounded(a_storage) : a.view(), right = rounds ? b.rounded(b_storage) : b.view();
  tiled_gemm(Product<T>{b.columns, a.rows, a.columns, alpha, beta}, right.transposed(), left.transposed(),
             MatrixView<T>{c, ldc, 1});
}

}  // namespace fovea::cuda_on_host
