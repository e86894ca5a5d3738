// Tried, and did not pay (`benchmark gemm` has the rates now):
// - On AVX-512, tiles of two vectors: a model of the pipeline gave 88 % of the peak, with three vectors 99 %.
// - libxsmm in place of these loops: faster where it has a kernel, but it has none for a transposed b, for a factor
//   alpha, or for arm64 on Debian (tensor/README.md has the rates).
#include "tensor/cpu/tiled_gemm.h"

#include <algorithm>
#include <memory>

#include "tensor/cpu/register_tile.h"
#include "tensor/storage.h"

namespace fovea {

namespace {

// Block sizes that fit the caches. A tile of b (k_block rows of two or three vectors) fills half or three quarters of
// the first-level cache, a block of a (m_block rows) a part of the second-level cache, and n_block columns of b a part
// of the third-level cache.
constexpr std::int64_t k_block = 8192 / vector_bytes, m_block = 128, n_block = 1024;

/// A thread's buffer for packed matrices: it grows to the size of the largest block and is kept.
class PackingBuffer {
 public:
  template <class T>
  T* of(std::int64_t elements) {
    std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(T);
    if (!storage_ || storage_->bytes() < bytes) {
      storage_.reset();
      storage_ = std::make_unique<Storage>(bytes, Device::cpu);
    }
    return reinterpret_cast<T*>(storage_->data());
  }

 private:
  std::unique_ptr<Storage> storage_;
};

thread_local PackingBuffer packed_a, packed_b;

/// Divides the columns of a product into tiles.
template <class T>
class ColumnTiles {
 public:
  ColumnTiles(std::int64_t m, std::int64_t n) {
    std::int64_t vectors = (n + Vec<T>::lanes - 1) / Vec<T>::lanes;
    split_ = {vectors, tiles(m, vectors)};
  }
  std::int64_t count() const { return split_.parts; }
  std::int64_t begin(std::int64_t tile) const { return split_.begin(tile) * Vec<T>::lanes; }

 private:
  /// Returns the number of tiles for `vectors` vectors of columns. Tiles that are two or three vectors wide leave
  /// registers for the most rows. With 32 registers they are three wide, because two barely hide the latency of the
  /// multiply-adds. A product of one or two rows has wider tiles, for as many independent sums.
  static std::int64_t tiles(std::int64_t m, std::int64_t vectors) {
    if (m == 1) return (vectors + 7) / 8;
    if (m == 2) return (vectors + 3) / 4;
    return vector_registers == 32 ? (vectors + 2) / 3 : std::max<std::int64_t>(1, vectors / 2);
  }

  EvenSplit split_;
};

/// Whether to copy b before multiplying. This is necessary if b's rows are not contiguous. Otherwise it pays if the
/// rows lie far apart and a has enough rows: b is read once for every few rows of a, and rows that lie far apart
/// compete for the same lines of the cache.
template <class T>
bool pack_b_pays(const Product<T>& product, const MatrixView<const T>& b) {
  std::int64_t spread = product.k * b.row_stride * static_cast<std::int64_t>(sizeof(T));
  return b.column_stride != 1 || (product.m >= 64 && spread > 16 * 1024);
}

template <class T>
bool pack_a_pays(const Product<T>& product, const MatrixView<const T>& a) {
  std::int64_t spread = product.k * a.column_stride * static_cast<std::int64_t>(sizeof(T));
  return a.column_stride != 1 && product.n >= 128 && spread > 16 * 1024;
}

/// Computes a product with k ≤ k_block and n ≤ n_block.
template <class T>
void multiply_block(const Product<T>& product, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c) {
  constexpr int lanes = Vec<T>::lanes;
  ColumnTiles<T> tiles(product.m, product.n);
  bool pack_all = pack_b_pays(product, b), pack_rows = pack_a_pays(product, a);
  for (std::int64_t m = 0; m < product.m; m += m_block) {
    Product<T> part = product;
    part.m = std::min(m_block, product.m - m);
    MatrixView<const T> rows = a.from(m, 0);
    if (pack_rows) {
      std::int64_t width = (product.k + lanes - 1) / lanes * lanes;
      T* copy = packed_a.of<T>(m_block * width);
      pack(rows, part.m, product.k, copy, width);
      rows = {copy, width, 1};
    }
    for (std::int64_t t = 0; t < tiles.count(); ++t) {
      std::int64_t begin = tiles.begin(t), width = tiles.begin(t + 1) - begin;
      part.n = std::min(width, product.n - begin);
      MatrixView<const T> tile = b.from(0, begin);
      if (pack_all || part.n < width) {  // a partly filled tile would be read beyond its end
        T* copy = packed_b.of<T>(product.k * tiles.begin(tiles.count())) + begin * product.k;
        if (m == 0) pack(tile, product.k, part.n, copy, width);
        tile = {copy, width, 1};
      }
      multiply_tiles<T, T>({part.k, part.alpha, part.beta, tile.data, tile.row_stride, static_cast<int>(part.n)},
                           static_cast<int>(width / lanes), part.m, rows, c.from(m, begin), [](std::int64_t) {});
    }
  }
}

/// Computes c = alpha a b + beta c for one column b; b and the rows of a are contiguous. It takes `lanes` rows of a at
/// a time, transposes their sums as a square, and so adds up all of them across the lanes at once.
template <class T>
void multiply_vector(const Product<T>& product, MatrixView<const T> a, const T* b, MatrixView<T> c) {
  using V = Vec<T>;
  constexpr int lanes = V::lanes;
  std::int64_t whole = product.k / lanes * lanes;
  int rest = static_cast<int>(product.k - whole);
  for (std::int64_t i = 0; i < product.m; i += lanes) {
    int used = static_cast<int>(std::min<std::int64_t>(lanes, product.m - i));
    V sum[lanes];
    const T* row[lanes];
#pragma GCC unroll 16
    for (int l = 0; l < lanes; ++l) {
      sum[l] = V(T(0));
      row[l] = a.at(i + std::min(l, used - 1), 0);
    }
    for (std::int64_t p = 0; p < whole; p += lanes) {
      V element = V::load(b + p);
#pragma GCC unroll 16
      for (int l = 0; l < lanes; ++l) sum[l] += V::load(row[l] + p) * element;
    }
    if (rest) {
      V element = V::load_partial(b + whole, rest);
#pragma GCC unroll 16
      for (int l = 0; l < lanes; ++l) sum[l] += V::load_partial(row[l] + whole, rest) * element;
    }
    transposition::square(sum);
    V total(T(0));
#pragma GCC unroll 16
    for (int l = 0; l < lanes; ++l) total += sum[l];
    // An explicit fma: if the compiler chose, it would round the vectorised part of the loop and the rest differently.
    for (int l = 0; l < used; ++l) {
      T* to = c.at(i + l, 0);
      *to = fma(product.alpha, total[l], product.beta != 0 ? product.beta * *to : T(0));
    }
  }
}

/// Computes a product with one or two columns as dot products, which use all lanes; a tile would leave most lanes
/// empty.
template <class T>
void multiply_columns_as_vectors(Product<T> product, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c) {
  constexpr int lanes = Vec<T>::lanes;
  constexpr std::int64_t longest = 256 * lanes;  // 256 additions in each lane have an error of at most 2^-17
  std::int64_t width = (product.k + lanes - 1) / lanes * lanes;
  for (std::int64_t j = 0; j < product.n; ++j) {
    const T* column = b.at(0, j);
    if (b.row_stride != 1) {
      T* copy = packed_b.of<T>(width);
      pack<T>(b.from(0, j).transposed(), 1, product.k, copy, width);
      column = copy;
    }
    Product<T> part = product;
    for (std::int64_t p = 0; p == 0 || p < product.k; p += longest) {
      part.k = std::min(longest, product.k - p);
      multiply_vector(part, a.from(0, p), column + p, c.from(0, j));
      part.beta = 1;
    }
  }
}

}  // namespace

template <class T>
void tiled_gemm(const Product<T>& product, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c) {
  constexpr std::int64_t few = 2;
  static_assert(few < smallest_part);
  auto [m, n, k, alpha, beta] = product;
  if (n <= few && a.column_stride == 1) return multiply_columns_as_vectors(product, a, b, c);
  if (m <= few && b.row_stride == 1)
    return multiply_columns_as_vectors({n, m, k, alpha, beta}, b.transposed(), a.transposed(), c.transposed());
  if (n == 1 && c.row_stride == 1 && m > 1)
    return tiled_gemm({n, m, k, alpha, beta}, b.transposed(), a.transposed(), c.transposed());
  for (std::int64_t column = 0; column < n; column += n_block) {
    Product<T> part = product;
    part.n = std::min(n_block, n - column);
    for (std::int64_t p = 0; p == 0 || p < k; p += k_block) {  // k = 0 gives c = beta c
      part.k = std::min(k_block, k - p);
      multiply_block(part, a.from(0, p), b.from(p, column), c.from(0, column));
      part.beta = 1;
    }
  }
}

template void tiled_gemm(const Product<float>&, MatrixView<const float>, MatrixView<const float>, MatrixView<float>);
template void tiled_gemm(const Product<double>&, MatrixView<const double>, MatrixView<const double>,
                         MatrixView<double>);

}  // namespace fovea
