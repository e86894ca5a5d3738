/// Matrix products c = a b whose right factor b is packed once and multiplied often. Fused attention calls them inside
/// a parallel loop: each thread computes its own products, and the caller supplies the memory for packing.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "attention/engine/cpu/bf16_pairs.h"
#include "attention/engine/cpu/rows_ahead.h"
#include "tensor/cpu/packing.h"
#include "tensor/cpu/register_tile.h"
#include "tensor/gemm.h"

namespace fovea {

/// The right factor b [k, n] of matrix products; b's memory must outlive the panels. b is either read in place or
/// copied. A copy is divided into panels of at most three vectors of columns. A panel stores its k rows one after the
/// other, filled up with zeros to whole vectors. A block of b is copied when a product first uses it, so only one
/// thread may use the panels.
///
/// With Precision::bf16, b is rounded when it is copied and a in every product; sums are f32. The copy then holds two
/// neighbouring rows of b as one row of pairs (Bf16Pair). f64 is never rounded.
template <class T>
class Panels {
 public:
  Panels() = default;
  /// Reads b in place, which is the faster way if b is multiplied only once; b must be readable(). Products also
  /// prefetch the rows listed in `ahead`, unless it is null.
  Panels(MatrixView<const T> b, std::int64_t k, std::int64_t n, RowsAhead* ahead = nullptr)
      : Panels(b, k, n, nullptr, nullptr, Precision::f32, ahead) {}
  /// Whether b can be read in place: its rows are contiguous and fill whole vectors.
  static bool readable(MatrixView<const T> b, std::int64_t n) { return b.column_stride == 1 && n % Vec<T>::lanes == 0; }
  /// Copies b into `memory`, an array of size(k, n) elements; `copied` is an array of blocks(k, n) flags that mark the
  /// blocks copied so far. The caller owns both arrays. b and the left factors of products may have any strides;
  /// copying is fastest if the row or the column stride of b is 1.
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

  /// The part of b that a product uses: rows [k_begin, k_end), where k_begin is even, and columns [n_begin, n_end).
  struct Part {
    std::int64_t k_begin, k_end, n_begin, n_end;
  };
  /// Computes c = alpha a b + beta c for m rows of a and c, restricted to a part of b: the sum runs over columns
  /// k_begin to k_end − 1 of a, and only c's vectors that overlap columns n_begin to n_end − 1 are computed, each of
  /// them whole. beta = 0 does not read c.
  void multiply(std::int64_t m, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c, const Part& part) const;
  void multiply(std::int64_t m, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c) const {
    multiply(m, alpha, a, beta, c, {0, k_, 0, n_});
  }

 private:
  // vectors in a row of the widest panel; with so many, a tile in registers can have the most rows
  static constexpr std::int64_t widest = vector_registers == 32 ? 3 : 2;
  // rows of b multiplied in one pass: within a panel, they fill most of the first-level cache
  static constexpr std::int64_t k_block = 8192 / vector_bytes;
  // rows of b copied at once; even, because bf16 rows are copied in pairs
  static constexpr std::int64_t block_rows = 64;

  static constexpr std::int64_t vectors(std::int64_t n) { return (n + Vec<T>::lanes - 1) / Vec<T>::lanes; }
  static constexpr std::int64_t panels(std::int64_t n) { return (vectors(n) + widest - 1) / widest; }
  static constexpr std::int64_t blocks_of_panel(std::int64_t k) { return (k + block_rows - 1) / block_rows; }
  /// Returns the first column of a panel. The widths of panels differ by at most one vector.
  std::int64_t begin(std::int64_t panel) const { return columns_.begin(panel) * Vec<T>::lanes; }

  /// The columns [column, column + width) of one panel that a product uses; both numbers are multiples of the lanes.
  struct Slice {
    std::int64_t panel, column, width;
  };
  /// Calls body(slice) for each panel that overlaps the columns of the part.
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

  /// The rows of a slice, beginning with the first row that a product uses.
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
  T* memory_ = nullptr;     ///< the copy of b, of Bf16Pairs if b is rounded; null if b is read in place
  bool* copied_ = nullptr;  ///< [panels, blocks of rows]: whether the block has been copied
  RowsAhead* ahead_ = nullptr;
  EvenSplit columns_;  ///< how the vectors of a row are divided into panels
  bool rounds_ = false;
};

}  // namespace fovea
