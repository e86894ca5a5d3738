#include "tensor/gemm.h"

#include <array>
#include <atomic>
#include <chrono>
#include <numeric>

#include "tensor/cpu/onednn_gemm.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/tiled_gemm.h"
#include "tensor/cuda_backend.h"

namespace fovea {

namespace {

std::atomic<Precision> precision = Precision::f32;
std::atomic<std::uint64_t> calls = 0, nanoseconds = 0;
std::atomic<double> flops = 0;

/// Counts one call and its time.
class Stopwatch {
 public:
  explicit Stopwatch(double work) {
    calls.fetch_add(1, std::memory_order_relaxed);
    flops.fetch_add(work, std::memory_order_relaxed);
  }
  ~Stopwatch() {
    auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count();
    nanoseconds.fetch_add(static_cast<std::uint64_t>(elapsed), std::memory_order_relaxed);
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

void check_operands(const char* what, const Tensor& a, const Tensor& b) {
  require(a.defined() && b.defined(), "{}: a is {}, b is {}; both must be defined", what, a, b);
  require(a.rank() >= 2 && b.rank() >= 2, "{}: needs matrices, [..., m, k] and [..., k, n]: a is {}, b is {}", what,
          a.shape(), b.shape());
  require(a.dtype() == b.dtype(), "{}: a is {}, b is {}; cast one of them", what, name(a.dtype()), name(b.dtype()));
  require(a.device() == b.device(), "{}: a is on {}, b is on {}; move one of them", what, name(a.device()),
          name(b.device()));
  require(a.size(-1) == b.size(-2),
          "{}: the inner dimensions differ: a is {}, b is {}; a's last ({}) must equal b's second to last ({})", what,
          a.shape(), b.shape(), a.size(-1), b.size(-2));
}

/// [batch..., m, n]
Shape product_shape(const char* what, const Tensor& a, const Tensor& b) {
  Shape out = a.rank() >= b.rank() ? a.shape() : b.shape();
  for (int d = -3; d >= -std::min(a.rank(), b.rank()); --d) {
    std::int64_t one = a.shape()[d], other = b.shape()[d];
    require(one == other || one == 1 || other == 1,
            "{}: the batch dimensions do not broadcast: a is {}, b is {}; {} and {} must be equal or 1", what,
            a.shape(), b.shape(), one, other);
    out[d] = one == 1 ? other : one;
  }
  out[-2] = a.size(-2);
  out[-1] = b.size(-1);
  return out;
}

void check_result(const Tensor& a, const Tensor& b, const Tensor& c) {
  require(c.defined(), "gemm: c is undefined; it must be {}", product_shape("gemm", a, b));
  Shape needed = product_shape("gemm", a, b);
  require(c.shape() == needed, "gemm: c is {}, the product of {} and {} is {}", c.shape(), a.shape(), b.shape(),
          needed);
  require(c.dtype() == a.dtype() && c.device() == a.device(), "gemm: c is {} on {}, a and b are {} on {}",
          name(c.dtype()), name(c.device()), name(a.dtype()), name(a.device()));
  for (int d = 0; d < c.rank() && c.elements() > 0; ++d)
    require(c.shape()[d] <= 1 || c.strides()[d] != 0,
            "gemm: c is an expanded view, {} with stride 0 in dimension {}; each result needs an element of its own",
            c.shape(), d);
}

bool shares_memory(const Tensor& a, const Tensor& b) { return a.overlaps(b) || a.is_same_view(b); }

/// Sizes and strides of a batch of products, in as few dimensions as it takes.
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

  /// Where the operands of product `index` begin.
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
  /// The stride of a dimension of one element means nothing: 1 suits a column, a whole row a row.
  template <class Element>
  static MatrixView<Element> view(const Tensor& x) {
    std::int64_t column = x.size(-1) == 1 ? 1 : x.strides()[-1];
    std::int64_t row = x.size(-2) == 1 ? std::max<std::int64_t>(x.size(-1), 1) * column : x.strides()[-2];
    return {x.data<T>(), row, column};
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

  /// [B, T, d] times one [d, n] is [B T, d] times [d, n].
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

  /// cᵀ = bᵀ aᵀ: kernels write c in rows.
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

/// Each product of a batch cut into rows × columns parts, so that every thread gets as many parts as the others.
struct Grid {
  std::int64_t rows = 1, columns = 1;

  /// `count` products [m, n], for so many threads. Each part reads its rows of a and its columns of b: of the grids
  /// with most parts, the squarest parts read least.
  Grid(std::int64_t count, std::int64_t m, std::int64_t n, std::int64_t threads) {
    const std::int64_t wanted = threads / std::gcd(threads, count);
    const std::int64_t most_rows = std::max<std::int64_t>(1, m / (2 * smallest_part));
    const std::int64_t most_columns = std::max<std::int64_t>(1, n / (4 * smallest_part));
    std::pair<std::int64_t, std::int64_t> best{0, 0};  // parts, then less reading
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
  constexpr double worth_a_thread = 1e5;  // flops: a microsecond or two, as long as a team takes to wake
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
  if (precision == Precision::bf16 && count == 1 && std::min({batch.m, batch.n, batch.k}) >= smallest_rounded)
    return onednn::multiply_rounded(product, {batch.a, *batch.a_tensor}, {batch.b, *batch.b_tensor}, batch.c);
  if (!onednn::prefers_sgemm(product) || !onednn::takes(product, batch.a, batch.b, batch.c))
    return multiply_tiled(batch, product.alpha, product.beta);
  for (std::int64_t item = 0; item < count; ++item) {
    auto at = batch.offsets(item);
    onednn::sgemm(product, batch.a.shifted(at.a), batch.b.shifted(at.b), batch.c.shifted(at.c));
  }
}

void gemm_on_cpu(const Tensor& a, const Tensor& b, Tensor& c, double alpha, double beta) {
  visit_real("gemm", c.dtype(), [&](auto type) {
    Batch<typename decltype(type)::type> batch(a, b, c);
    if (batch.count() * batch.m * batch.n == 0) return;
    if (batch.c.column_stride == 1) return multiply(batch, alpha, beta);
    Tensor dense = beta == 0 ? Tensor::empty(c.shape(), c.dtype()) : c.contiguous();
    gemm_on_cpu(a, b, dense, alpha, beta);
    c.copy_from(dense);
  });
}

}  // namespace

void gemm(const Tensor& a, const Tensor& b, Tensor& c, double alpha, double beta) {
  check_operands("gemm", a, b);
  check_result(a, b, c);
  if (shares_memory(c, a) || shares_memory(c, b)) {
    Tensor result = beta == 0 ? Tensor::empty(c.shape(), c.dtype(), c.device()) : c.clone();
    gemm(a, b, result, alpha, beta);
    return c.copy_from(result);
  }
  c.changed();
  Stopwatch stopwatch(2.0 * static_cast<double>(c.elements()) * static_cast<double>(a.size(-1)));
  if (c.device() == Device::cuda) return cuda_backend().gemm(a, b, c, alpha, beta);
  gemm_on_cpu(a, b, c, alpha, beta);
}

Shape matmul_shape(const Tensor& a, const Tensor& b) {
  check_operands("matmul", a, b);
  return product_shape("matmul", a, b);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  Tensor c = Tensor::empty(matmul_shape(a, b), a.dtype(), a.device());
  gemm(a, b, c);
  return c;
}

void set_matmul_precision(Precision chosen) { precision = chosen; }
Precision matmul_precision() { return precision; }

GemmStatistics gemm_statistics() { return {calls, flops, static_cast<double>(nanoseconds) * 1e-9}; }

void reset_gemm_statistics() {
  calls = 0;
  flops = 0;
  nanoseconds = 0;
}

}  // namespace fovea
