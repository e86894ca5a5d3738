#include "attention/engine/cpu/panels.h"

#include <vector>

namespace fovea {

namespace {

/// Loads elements [from, from + lanes) of a row of n elements that lie `step` apart; elements past the row's end are 0.
FOVEA_INLINE Vec<float> part_of_row(const float* row, std::int64_t step, std::int64_t from, std::int64_t n) {
  if (step != 1) {
    float part[Vec<float>::lanes] = {};
    for (int lane = 0; lane < std::min<std::int64_t>(Vec<float>::lanes, n - from); ++lane)
      part[lane] = row[(from + lane) * step];
    return Vec<float>::load(part);
  }
  if (from + Vec<float>::lanes <= n) return Vec<float>::load(row + from);
  return from < n ? Vec<float>::load_partial(row + from, static_cast<int>(n - from)) : Vec<float>(0.0f);
}

/// Loads pairs of neighbours from a row of n elements that lie `step` apart, beginning with pair number `pair`.
FOVEA_INLINE Vec<Bf16Pair> pairs_of_row(const float* row, std::int64_t step, std::int64_t pair, std::int64_t n) {
  return neighbours_as_bf16_pairs(part_of_row(row, step, 2 * pair, n),
                                  part_of_row(row, step, 2 * pair + Vec<float>::lanes, n));
}

/// Packs b [k, n] in pairs of rows: to[p * width + column] holds the elements of rows 2 p and 2 p + 1, rounded to bf16.
/// The last vector of each packed row is filled up with zeros.
void pack_pairs(MatrixView<const float> b, std::int64_t k, std::int64_t n, Bf16Pair* to, std::int64_t width) {
  constexpr int lanes = Vec<float>::lanes;
  const std::int64_t pairs = (k + 1) / 2;
  for (std::int64_t column = 0; column < n; column += lanes) {
    const int used = static_cast<int>(std::min<std::int64_t>(lanes, n - column));
    if (b.column_stride == 1) {
      for (std::int64_t p = 0; p < pairs; ++p) {
        const Vec<float> first = part_of_row(b.at(2 * p, 0), 1, column, n),
                         second = 2 * p + 1 < k ? part_of_row(b.at(2 * p + 1, 0), 1, column, n) : Vec<float>(0.0f);
        bf16_pairs(first, second).store(to + p * width + column);
      }
      continue;
    }
    for (std::int64_t p = 0; p < pairs; p += lanes) {
      Vec<Bf16Pair> block[lanes];
      for (int l = 0; l < lanes; ++l)
        block[l] = l < used ? pairs_of_row(b.at(0, column + l), b.row_stride, p, k) : Vec<Bf16Pair>(Bf16Pair{0});
      transposition::square(block);
      const int rows = static_cast<int>(std::min<std::int64_t>(lanes, pairs - p));
      for (int l = 0; l < rows; ++l) block[l].store(to + (p + l) * width + column);
    }
  }
}

/// Returns a [m, k] as pairs of neighbouring columns, [m, (k + 1) / 2], rounded to bf16. The rows are contiguous and
/// filled up with zeros to whole vectors. They lie in memory of the calling thread, which the next call overwrites.
MatrixView<const Bf16Pair> as_pairs(MatrixView<const float> a, std::int64_t m, std::int64_t k) {
  constexpr int lanes = Vec<float>::lanes;
  static thread_local std::vector<Bf16Pair> memory;
  const std::int64_t pairs = (k + 1) / 2, width = (pairs + lanes - 1) / lanes * lanes;
  const auto needed = static_cast<std::size_t>((m + lanes) * width);
  if (memory.size() < needed) memory.resize(needed);
  if (a.column_stride == 1) {
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t p = 0; p < pairs; p += lanes) pairs_of_row(a.at(i, 0), 1, p, k).store(&memory[i * width + p]);
    return {memory.data(), width, 1};
  }
  for (std::int64_t i = 0; i < m; i += lanes)
    for (std::int64_t p = 0; p < pairs; p += lanes) {
      Vec<Bf16Pair> block[lanes];
      for (int l = 0; l < lanes; ++l) {
        const std::int64_t column = 2 * (p + l);
        block[l] = column < k ? bf16_pairs(part_of_row(a.at(0, column), a.row_stride, i, m),
                                           column + 1 < k ? part_of_row(a.at(0, column + 1), a.row_stride, i, m)
                                                          : Vec<float>(0.0f))
                              : Vec<Bf16Pair>(Bf16Pair{0});
      }
      transposition::square(block);
      for (int l = 0; l < lanes; ++l) block[l].store(&memory[(i + l) * width + p]);
    }
  return {memory.data(), width, 1};
}

}  // namespace

/// Copies a block of a panel: its rows from k_begin on, a multiple of block_rows, and at most block_rows of them.
template <class T>
void Panels<T>::copy_block(std::int64_t panel, std::int64_t k_begin) const {
  const std::int64_t rows = std::min(block_rows, k_ - k_begin);
  const std::int64_t column = begin(panel), width = begin(panel + 1) - column, columns = std::min(width, n_ - column);
  if constexpr (std::is_same_v<T, float>)
    if (rounds_)
      return pack_pairs(b_.from(k_begin, column), rows, columns,
                        reinterpret_cast<Bf16Pair*>(memory_) + column * ((k_ + 1) / 2) + k_begin / 2 * width, width);
  pack(b_.from(k_begin, column), rows, columns, memory_ + column * k_ + k_begin * width, width);
}

/// Copies those blocks of b that the part uses and that have not been copied yet.
template <class T>
void Panels<T>::copy_part(const Part& part) const {
  bool found_new = false;
  for_slices(part, [&](const Slice& slice) {
    for (std::int64_t k = part.k_begin / block_rows * block_rows; k < part.k_end; k += block_rows) {
      bool& copied = copied_[slice.panel * blocks_of_panel(k_) + k / block_rows];
      if (copied) continue;
      copied = found_new = true;
      copy_block(slice.panel, k);
    }
  });
  if (found_new && ahead_) fetch_behind(part);
}

/// Adds the rows of b that follow the part to the list of memory to prefetch, at most 64 of them: the caller walks b in
/// order. If b's columns are contiguous rather than its rows, adds the columns that follow the part.
template <class T>
void Panels<T>::fetch_behind(const Part& part) const {
  constexpr std::int64_t element = sizeof(T), few = 64;
  const bool columns_apart = b_.column_stride != 1;
  const std::int64_t from = columns_apart ? part.n_end : part.k_end,
                     count = std::min(few, (columns_apart ? n_ : k_) - from);
  const T* data = columns_apart ? b_.at(0, from) : b_.at(from, 0);
  ahead_->add({reinterpret_cast<const std::byte*>(data), (columns_apart ? b_.column_stride : b_.row_stride) * element,
               count, (columns_apart ? k_ : n_) * element});
}

template <class T>
void Panels<T>::multiply(std::int64_t m, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c,
                         const Part& part) const {
  if (memory_) copy_part(part);
  if (rounds_) return multiply_rounded(m, alpha, a, beta, c, part);
  multiply_slices(m, alpha, a.from(0, part.k_begin), beta, c, part);
}

/// Computes a part of a product whose factors are rounded to bf16, in pairs of rows of b. If the part ends between the
/// two rows of a pair, that pair is multiplied separately, with its second row replaced by 0.
template <class T>
void Panels<T>::multiply_rounded(std::int64_t m, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c,
                                 const Part& part) const {
  if constexpr (std::is_same_v<T, float>) {
    const bool alone = part.k_end % 2 == 1 && part.k_end < k_;
    const MatrixView<const Bf16Pair> pairs = as_pairs(a.from(0, part.k_begin), m, part.k_end - part.k_begin);
    const std::int64_t first = part.k_begin / 2, end = part.k_end / 2 + (part.k_end % 2 && !alone ? 1 : 0);
    if (first < end || !alone) multiply_slices(m, alpha, pairs, beta, c, {first, end, part.n_begin, part.n_end});
    if (!alone) return;
    if (first < end) beta = 1;
    for_slices(part, [&](const Slice& slice) {
      const SliceRows<Bf16Pair> last = rows_from<Bf16Pair>(slice, end);
      Bf16Pair row[widest * Vec<T>::lanes];
      for (std::int64_t j = 0; j < slice.width; ++j) row[j] = last.data[j] & 0xffffu;
      multiply_slice<Bf16Pair>(slice, {row, 0}, 1, m, alpha, pairs.from(0, end - first), beta, c);
    });
  }
}

template <class T>
template <class Factor>
void Panels<T>::multiply_slices(std::int64_t m, T alpha, MatrixView<const Factor> a, T beta, MatrixView<T> c,
                                const Part& part) const {
  for_slices(part, [&](const Slice& slice) {
    T keep = beta;
    std::int64_t k = part.k_begin;
    do {  // at least once: if the part has no rows of b, the product is 0, and c is still multiplied by beta
      multiply_slice(slice, rows_from<Factor>(slice, k), std::min(k_block, part.k_end - k), m, alpha,
                     a.from(0, k - part.k_begin), keep, c);
      keep = 1;
      k += k_block;
    } while (k < part.k_end);
  });
}

template <class T>
template <class Factor>
typename Panels<T>::template SliceRows<Factor> Panels<T>::rows_from(const Slice& slice, std::int64_t k) const {
  const std::int64_t column = begin(slice.panel), width = begin(slice.panel + 1) - column,
                     within = slice.column - column;
  if constexpr (!std::is_same_v<T, Factor>)
    return {reinterpret_cast<const Factor*>(memory_) + column * ((k_ + 1) / 2) + k * width + within, width};
  else
    return memory_ ? SliceRows<Factor>{memory_ + column * k_ + k * width + within, width}
                   : SliceRows<Factor>{b_.at(k, slice.column), b_.row_stride};
}

template <class T>
template <class Factor>
void Panels<T>::multiply_slice(const Slice& slice, SliceRows<Factor> rows, std::int64_t k, std::int64_t m, T alpha,
                               MatrixView<const Factor> a, T beta, MatrixView<T> c) const {
  const int vectors = static_cast<int>(slice.width / Vec<T>::lanes);
  const RegisterTile<T, Factor> tile{
      k, alpha, beta, rows.data, rows.stride, static_cast<int>(std::min(slice.width, n_ - slice.column))};
  constexpr std::int64_t line_of_work = 16;  // vector multiply-adds in the time that memory takes for a cache line
  multiply_tiles(tile, vectors, m, a, c.from(0, slice.column), [&](std::int64_t height) {
    if (ahead_) ahead_->fetch(k * height * vectors / line_of_work);
  });
}

// Instantiated only in this file, because each instance compiles a kernel for every size of a tile.
template class Panels<float>;
template class Panels<double>;

}  // namespace fovea
