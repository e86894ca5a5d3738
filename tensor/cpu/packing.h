/// Packing for matrix products: copies matrices of any strides into rows of whole SIMD vectors, which the inner loops
/// read.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tensor/cpu/simd.h"

namespace fovea {

/// A matrix in memory: element (i, j) is at data[i * row_stride + j * column_stride].
template <class T>
struct MatrixView {
  T* data;
  std::int64_t row_stride, column_stride;

  T* at(std::int64_t i, std::int64_t j) const { return data + i * row_stride + j * column_stride; }
  MatrixView from(std::int64_t i, std::int64_t j) const { return {at(i, j), row_stride, column_stride}; }
  MatrixView shifted(std::int64_t elements) const { return {data + elements, row_stride, column_stride}; }
  MatrixView transposed() const { return {data, column_stride, row_stride}; }
  bool operator==(const MatrixView&) const = default;
  operator MatrixView<const T>() const requires(!std::is_const_v<T>) { return {data, row_stride, column_stride}; }
};

namespace transposition {

/// Exchanges the odd-numbered blocks of `width` lanes of `upper` with the even-numbered blocks of `lower`: one step of
/// a transposition.
template <int width, class T>
FOVEA_INLINE void swap_blocks(Vec<T>& upper, Vec<T>& lower) {
  constexpr int lanes = Vec<T>::lanes;
  [&]<int... j>(std::integer_sequence<int, j...>) {
    auto even = __builtin_shufflevector(upper.native, lower.native, ((j & width) ? lanes + j - width : j)...);
    auto odd = __builtin_shufflevector(upper.native, lower.native, ((j & width) ? lanes + j : j + width)...);
    upper = Vec<T>(even);
    lower = Vec<T>(odd);
  }
  (std::make_integer_sequence<int, lanes>{});
}

/// Transposes a square of lanes × lanes elements, one vector per row, in registers.
template <class T, int width = Vec<T>::lanes / 2>
FOVEA_INLINE void square(Vec<T> (&row)[Vec<T>::lanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < Vec<T>::lanes; ++i)
    if (!(i & width)) swap_blocks<width>(row[i], row[i + width]);
  if constexpr (width > 1) square<T, width / 2>(row);
}

/// Copies a [rows, columns] matrix whose row stride is 1 into rows that are `width` elements apart. It transposes
/// squares in registers. The last vector of each row is filled up with zeros.
template <class T>
void pack(MatrixView<const T> from, std::int64_t rows, std::int64_t columns, T* to, std::int64_t width) {
  constexpr int lanes = Vec<T>::lanes;
  for (std::int64_t j = 0; j < columns; j += lanes) {
    int used = static_cast<int>(std::min<std::int64_t>(lanes, columns - j));
    std::int64_t i = 0;
    for (; i + lanes <= rows; i += lanes) {
      Vec<T> block[lanes];
#pragma GCC unroll 16
      for (int l = 0; l < lanes; ++l) block[l] = l < used ? Vec<T>::load(from.at(i, j + l)) : Vec<T>(T(0));
      square(block);
#pragma GCC unroll 16
      for (int l = 0; l < lanes; ++l) block[l].store(to + (i + l) * width + j);
    }
    for (; i < rows; ++i)
      for (int l = 0; l < lanes; ++l) to[i * width + j + l] = l < used ? *from.at(i, j + l) : T(0);
  }
}

}  // namespace transposition

/// Copies a [rows, columns] matrix of any strides into rows that are `width` elements apart; `width` is at least
/// `columns` rounded up to a multiple of the lanes. The last vector of each row is filled up with zeros.
template <class T>
void pack(MatrixView<const T> from, std::int64_t rows, std::int64_t columns, T* to, std::int64_t width) {
  constexpr int lanes = Vec<T>::lanes;
  if (from.row_stride == 1 && from.column_stride != 1) return transposition::pack(from, rows, columns, to, width);
  std::int64_t whole = columns / lanes * lanes, padded = (columns + lanes - 1) / lanes * lanes;
  for (std::int64_t i = 0; i < rows; ++i, to += width) {
    const T* row = from.at(i, 0);
    if (from.column_stride == 1) {
      for (std::int64_t j = 0; j < whole; j += lanes) Vec<T>::load(row + j).store(to + j);
      if (whole < columns) Vec<T>::load_partial(row + whole, static_cast<int>(columns - whole)).store(to + whole);
    } else {
      for (std::int64_t j = 0; j < columns; ++j) to[j] = row[j * from.column_stride];
      std::fill(to + columns, to + padded, T(0));
    }
  }
}

}  // namespace fovea
