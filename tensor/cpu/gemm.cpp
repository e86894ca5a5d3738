// Matrix products on the CPU: chooses between oneDNN and tiled_gemm, and divides a batch among the threads.
#include "tensor/gemm.h"

#include <array>
#include <numeric>

#include "tensor/cpu/onednn_gemm.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/tiled_gemm.h"
#include "tensor/kernels.h"

namespace fovea::cpu {

namespace {

/// The sizes and strides of a batch of products. Batch dimensions are merged where their strides allow it, and become
/// rows of one larger product where all products share b.
template <class T>
class Batch {
 public:
  struct Offsets {
    std::int64_t a = 0, b = 0, c = 0;  ///< in elements
  };
  std::int64_t m, n, k;
  MatrixView<const T> a, b;
  MatrixView<T> c;
  const Tensor *a_tensor, *b_tensor;

  Batch(const Tensor& left, const Tensor& right, Tensor& out)
      : m(out.size(-2)),
        n(out.size(-1)),
        k(left.size(-1)),
        a(view<const T>(left)),
        b(view<const T>(right)),
        c(view<T>(out)),
        a_tensor(&left),
        b_tensor(&right) {
    for (int d = -out.rank(); d < -2; ++d)
      if (out.shape()[d] != 1) add(out.shape()[d], {step(left, d), step(right, d), out.strides()[d]});
    fold();
    if (m == 1 && c.column_stride != 1) c.row_stride = 1;
    if (c.column_stride != 1 && c.row_stride == 1) transpose();
  }

  std::int64_t count() const {
    std::int64_t product = 1;
    for (int d = 0; d < rank_; ++d) product *= sizes_[d];
    return product;
  }

  /// Returns where the operands of product `index` begin.
  Offsets offsets(std::int64_t index) const {
    Offsets at;
    for (int d = rank_ - 1; d >= 0; --d) {
      std::int64_t i = index % sizes_[d];
      index /= sizes_[d];
      at = {at.a + i * steps_[d].a, at.b + i * steps_[d].b, at.c + i * steps_[d].c};
    }
    return at;
  }

  double flops() const { return 2.0 * static_cast<double>(m * n) * static_cast<double>(k); }  ///< of one product

 private:
  /// Returns the last two dimensions of x as a matrix. The stride of a dimension of size 1 has no meaning, so it is
  /// replaced: a column stride by 1, a row stride by the length of a row in memory.
  template <class Element>
  static MatrixView<Element> view(const Tensor& x) {
    std::int64_t column = x.size(-1) == 1 ? 1 : x.strides()[-1];
    std::int64_t row = x.size(-2) == 1 ? std::max<std::int64_t>(x.size(-1), 1) * column : x.strides()[-2];
    if constexpr (std::is_const_v<Element>)
      return {x.data<T>(), row, column};
    else
      return {x.mutable_data<T>(), row, column};
  }
  static std::int64_t step(const Tensor& x, int d) { return d < -x.rank() || x.shape()[d] == 1 ? 0 : x.strides()[d]; }

  void add(std::int64_t size, Offsets step) {
    if (rank_ > 0) {
      const Offsets& outer = steps_[rank_ - 1];
      if (outer.a == size * step.a && outer.b == size * step.b && outer.c == size * step.c) {
        sizes_[rank_ - 1] *= size;
        steps_[rank_ - 1] = step;
        return;
      }
    }
    sizes_[rank_] = size;
    steps_[rank_++] = step;
  }

  /// Turns batch dimensions in which all products share b into rows: [B, T, d] times [d, n] is [B T, d] times [d, n].
  void fold() {
    for (; rank_ > 0; --rank_) {
      const Offsets& inner = steps_[rank_ - 1];
      if (inner.b != 0) return;
      if (m == 1) {
        a.row_stride = inner.a;
        c.row_stride = inner.c;
      } else if (inner.a != m * a.row_stride || inner.c != m * c.row_stride) {
        return;
      }
      m *= sizes_[rank_ - 1];
    }
  }

  /// Replaces the products by cᵀ = bᵀ aᵀ, because the kernels write contiguous rows of c.
  void transpose() {
    std::swap(m, n);
    std::swap(a, b);
    std::swap(a_tensor, b_tensor);
    a = a.transposed();
    b = b.transposed();
    c = c.transposed();
    for (int d = 0; d < rank_; ++d) std::swap(steps_[d].a, steps_[d].b);
  }

  std::array<std::int64_t, Shape::max_rank> sizes_;
  std::array<Offsets, Shape::max_rank> steps_;
  int rank_ = 0;
};

/// Divides each product of a batch into `rows` × `columns` parts, so that all threads get the same number of parts.
struct Grid {
  std::int64_t rows = 1, columns = 1;

  /// Chooses the grid for `count` products [m, n] and so many threads. A part reads its rows of a and its columns of b.
  /// So among the grids with the most parts, the one with the squarest parts is best: it reads least.
  Grid(std::int64_t count, std::int64_t m, std::int64_t n, std::int64_t threads) {
    const std::int64_t wanted = threads / std::gcd(threads, count);
    const std::int64_t most_rows = std::max<std::int64_t>(1, m / (2 * smallest_part));
    const std::int64_t most_columns = std::max<std::int64_t>(1, n / (4 * smallest_part));
    std::pair<std::int64_t, std::int64_t> best{0, 0};  // parts; minus the rows and columns that a part reads
    for (std::int64_t r = 1; r <= std::min(wanted, most_rows); ++r) {
      std::int64_t c = std::clamp<std::int64_t>(wanted / r, 1, most_columns);
      std::pair<std::int64_t, std::int64_t> quality{r * c, -(m / r + n / c)};
      if (best < quality) {
        best = quality;
        rows = r;
        columns = c;
      }
    }
  }
};

template <class T>
void multiply_tiled(const Batch<T>& batch, T alpha, T beta) {
  constexpr double worth_a_thread = 1e5;  // flops: one or two microseconds, the time to wake a team of threads
  const std::int64_t count = batch.count();
  const double work = batch.flops() * static_cast<double>(count);
  const std::int64_t threads = work < 2 * worth_a_thread ? 1 : available_threads();
  const Grid grid(count, batch.m, batch.n, threads);
  const std::int64_t parts = grid.rows * grid.columns, items = count * parts;
  const auto grain = static_cast<std::int64_t>(1 + worth_a_thread * static_cast<double>(items) / (work + 1));
  parallel_for(items, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      auto at = batch.offsets(item / parts);
      std::int64_t row = item % parts / grid.columns, column = item % parts % grid.columns;
      std::int64_t i = batch.m * row / grid.rows, j = batch.n * column / grid.columns;
      Product<T> part{batch.m * (row + 1) / grid.rows - i, batch.n * (column + 1) / grid.columns - j, batch.k, alpha,
                      beta};
      tiled_gemm(part, batch.a.shifted(at.a).from(i, 0), batch.b.shifted(at.b).from(0, j),
                 batch.c.shifted(at.c).from(i, j));
    }
  });
}

void multiply(const Batch<double>& batch, double alpha, double beta) { multiply_tiled(batch, alpha, beta); }

void multiply(const Batch<float>& batch, double alpha, double beta) {
  constexpr std::int64_t smallest_rounded = 16;
  const std::int64_t count = batch.count();
  const Product<float> product{batch.m, batch.n, batch.k, static_cast<float>(alpha), static_cast<float>(beta)};
  if (matmul_precision() == Precision::bf16 && count == 1 && std::min({batch.m, batch.n, batch.k}) >= smallest_rounded)
    return onednn::multiply_rounded(product, {batch.a, *batch.a_tensor}, {batch.b, *batch.b_tensor}, batch.c);
  if (!onednn::prefers_sgemm(product) || !onednn::takes(product, batch.a, batch.b, batch.c))
    return multiply_tiled(batch, product.alpha, product.beta);
  for (std::int64_t item = 0; item < count; ++item) {
    auto at = batch.offsets(item);
    onednn::sgemm(product, batch.a.shifted(at.a), batch.b.shifted(at.b), batch.c.shifted(at.c));
  }
}

void gemm(const Tensor& a, const Tensor& b, Tensor& c, double alpha, double beta) {
  visit_real("gemm", c.dtype(), [&](auto type) {
    Batch<typename decltype(type)::type> batch(a, b, c);
    if (batch.count() * batch.m * batch.n == 0) return;
    if (batch.c.column_stride == 1) return multiply(batch, alpha, beta);
    Tensor dense = beta == 0 ? Tensor::empty(c.shape(), c.dtype()) : c.contiguous();
    cpu::gemm(a, b, dense, alpha, beta);
    c.copy_from(dense);
  });
}

const Provide provide(Device::cpu, [](Kernels& table) {
  table.gemm = [](const Tensor& a, const Tensor& b, Tensor& c, const GemmForm& form) {
    // The CPU gains nothing from one kernel for the product and the vector beside it.
    if (form.bias || form.column_sums) return false;
    cpu::gemm(a, b, c, form.alpha, form.beta);
    return true;
  };
});

}  // namespace
}  // namespace fovea::cpu
