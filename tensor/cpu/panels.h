/// Products with a matrix that is packed once and multiplied often: the inner products of fused kernels, which run
/// inside a parallel loop and on memory of their own.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tensor/cpu/packing.h"
#include "tensor/cpu/register_tile.h"
#include "tensor/cpu/rows_ahead.h"
#include "tensor/gemm.h"

namespace fovea {

/// The right factor b [k, n] of products, which must outlive the panels. b is either read where it lies or copied: in
/// panels of at most three vectors of columns, each with its k rows one after the other, filled up with zeros to whole
/// vectors. A block of b is copied when a product first reaches it, so the panels belong to one thread.
///
/// Precision::bf16 rounds b when it is copied and a in every product, and sums in f32: rows lie in pairs. f64 is never
/// rounded.
template <class T>
class Panels {
 public:
  Panels() = default;
  /// Reads b where it lies, which pays for a matrix that is multiplied once; it must be readable(). Products prefetch
  /// the rows of `ahead`, unless it is null.
  Panels(MatrixView<const T> b, std::int64_t k, std::int64_t n, RowsAhead* ahead = nullptr)
      : Panels(b, k, n, nullptr, nullptr, Precision::f32, ahead) {}
  /// Whether the rows of b are contiguous and fill whole vectors.
  static bool readable(MatrixView<const T> b, std::int64_t n) { return b.column_stride == 1 && n % Vec<T>::lanes == 0; }
  /// Copies b into `memory`, size(k, n) elements; `copied` are blocks(k, n) flags. Both belong to the caller. Strides
  /// are arbitrary, those of a product's a too; copying is fastest where one of the two is 1.
  Panels(MatrixView<const T> b, std::int64_t k, std::int64_t n, T* memory, bool* copied,
         Precision precision = Precision::f32, RowsAhead* ahead = nullptr)
      : b_(b),
        k_(k),
        n_(n),
        memory_(memory),
        copied_(copied),
        ahead_(ahead),
        columns_{vectors(n), panels(n)},
        rounds_(std::is_same_v<T, float> && precision == Precision::bf16) {
    if (copied) std::fill_n(copied, blocks(k, n), false);
  }

  static constexpr std::int64_t padded(std::int64_t n) { return vectors(n) * Vec<T>::lanes; }
  static constexpr std::int64_t size(std::int64_t k, std::int64_t n) { return k * padded(n); }

  static constexpr std::int64_t blocks(std::int64_t k, std::int64_t n) { return panels(n) * blocks_of_panel(k); }

  /// c = alpha a b + beta c for m rows of a and c, over rows [k_begin, k_end) of b, a's columns counted like them.
  /// Only vectors that overlap columns [n_begin, n_end) are computed, those whole; beta = 0 does not read c. k_begin is
  /// even.
  struct Part {
    std::int64_t k_begin, k_end, n_begin, n_end;
  };
  void multiply(std::int64_t m, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c, const Part& part) const;
  void multiply(std::int64_t m, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c) const {
    multiply(m, alpha, a, beta, c, {0, k_, 0, n_});
  }

 private:
  static constexpr std::int64_t widest = vector_registers == 32 ? 3 : 2;  // vectors: they leave room for most rows
  static constexpr std::int64_t k_block = 8192 / vector_bytes;            // a panel's rows fill most of the first cache
  static constexpr std::int64_t block_rows = 64;                          // copied at once: even, as pairs are

  static constexpr std::int64_t vectors(std::int64_t n) { return (n + Vec<T>::lanes - 1) / Vec<T>::lanes; }
  static constexpr std::int64_t panels(std::int64_t n) { return (vectors(n) + widest - 1) / widest; }
  static constexpr std::int64_t blocks_of_panel(std::int64_t k) { return (k + block_rows - 1) / block_rows; }
  /// First column of a panel: their widths differ by at most one vector.
  std::int64_t begin(std::int64_t panel) const { return columns_.begin(panel) * Vec<T>::lanes; }

  /// The columns of one panel that a product uses: [column, column + width), whole vectors.
  struct Slice {
    std::int64_t panel, column, width;
  };
  /// body(slice) for the panels that overlap the part's columns.
  template <class Body>
  void for_slices(const Part& part, Body&& body) const {
    for (std::int64_t panel = 0; panel < columns_.parts; ++panel) {
      const std::int64_t first = std::max(part.n_begin / Vec<T>::lanes * Vec<T>::lanes, begin(panel)),
                         end = std::min(padded(part.n_end), begin(panel + 1));
      if (first < end) body(Slice{panel, first, end - first});
    }
  }

  void copy_block(std::int64_t panel, std::int64_t k_begin) const;
  void copy_part(const Part& part) const;
  void fetch_behind(const Part& part) const;

  /// A slice's rows, from the first of a product on.
  template <class Factor>
  struct SliceRows {
    const Factor* data;
    std::int64_t stride;
  };
  template <class Factor>
  SliceRows<Factor> rows_from(const Slice& slice, std::int64_t k) const;
  template <class Factor>
  void multiply_slices(std::int64_t m, T alpha, MatrixView<const Factor> a, T beta, MatrixView<T> c,
                       const Part& part) const;
  template <class Factor>
  void multiply_slice(const Slice& slice, SliceRows<Factor> rows, std::int64_t k, std::int64_t m, T alpha,
                      MatrixView<const Factor> a, T beta, MatrixView<T> c) const;
  void multiply_rounded(std::int64_t m, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c,
                        const Part& part) const;

  MatrixView<const T> b_ = {};
  std::int64_t k_ = 0, n_ = 0;
  T* memory_ = nullptr;     ///< of the copy, Bf16Pairs where b is rounded; null: b is read where it lies
  bool* copied_ = nullptr;  ///< [panels, blocks of rows]
  RowsAhead* ahead_ = nullptr;
  EvenSplit columns_;  ///< the vectors of a row, cut into panels
  bool rounds_ = false;
};

}  // namespace fovea
