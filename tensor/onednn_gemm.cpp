#include "tensor/onednn_gemm.h"

#include <algorithm>
#include <compare>
#include <list>
#include <map>
#include <mutex>

#include <oneapi/dnnl/dnnl.hpp>

#include "tensor/parallel.h"
#include "tensor/tensor.h"

namespace fovea::onednn {

namespace {

bool has_instructions(dnnl::cpu_isa wanted) {
  static const auto here = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  auto bits = static_cast<unsigned>(wanted);
  return (here & bits) == bits;
}

std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

/// A dense copy [rows, columns] of [used_rows, used_columns] of an f32 matrix, rounded to bf16, filled up with zeros.
/// Stored as bf16, or as f32 that holds the rounded values.
template <class Stored>
Tensor rounded_copy(MatrixView<const float> from, std::int64_t used_rows, std::int64_t used_columns, std::int64_t rows,
                    std::int64_t columns) {
  constexpr std::int64_t strip_rows = 16, strip_columns = 256;  // packed in the cache where rows are not contiguous
  Tensor out = Tensor::empty({rows, columns}, dtype_of<Stored>);
  Stored* to = out.data<Stored>();
  auto convert_strip = [&](std::int64_t i, std::int64_t j) {
    std::int64_t height = std::min(strip_rows, used_rows - i), width = std::min(strip_columns, used_columns - j);
    MatrixView<const float> source = from.from(i, j);
    alignas(64) float strip[strip_rows * strip_columns];
    if (source.column_stride != 1) {
      pack(source, height, width, strip, strip_columns);
      source = {strip, strip_columns, 1};
    }
    for (std::int64_t r = 0; r < height; ++r) {
      const float* row = source.at(r, 0);
      Stored* target = to + (i + r) * columns + j;
      for (std::int64_t x = 0; x < width; ++x) target[x] = static_cast<Stored>(bf16(row[x]));
    }
  };
  parallel_for((rows + strip_rows - 1) / strip_rows, 1 + element_grain / (strip_rows * (columns + 1)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin * strip_rows; i < std::min(rows, end * strip_rows); i += strip_rows) {
                   for (std::int64_t j = 0; j < used_columns && i < used_rows; j += strip_columns) convert_strip(i, j);
                   for (std::int64_t r = i; r < std::min(rows, i + strip_rows); ++r)
                     std::fill(to + r * columns + (r < used_rows ? used_columns : 0), to + (r + 1) * columns, Stored());
                 }
               });
  return out;
}

/// Dense a [m, k] and b [k, n] of `operand` type, c [m, n] of f32 in rows of c_row.
struct Layout {
  std::int64_t m, n, k, c_row;
  DType operand;
  auto operator<=>(const Layout&) const = default;

  dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride, DType type) const {
    using dnnl::memory;
    auto element = type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    return {memory::dims{rows, columns}, element, memory::dims{row_stride, 1}};
  }
  dnnl::memory::desc a() const { return matrix(m, k, k, operand); }
  dnnl::memory::desc b() const { return matrix(k, n, n, operand); }
  dnnl::memory::desc c() const { return matrix(m, n, c_row, DType::f32); }
};

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::matmul create(const Layout& layout) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul(dnnl::matmul::primitive_desc(engine(), layout.a(), layout.b(), layout.c()));
#else
  return dnnl::matmul(dnnl::matmul::primitive_desc({layout.a(), layout.b(), layout.c()}, engine()));
#endif
}

/// oneDNN compiles code for each new shape, 0.2 to 0.65 ms: the last thousand are kept.
class PrimitiveCache {
 public:
  dnnl::matmul find(const Layout& layout) {
    std::lock_guard lock(mutex_);
    auto known = places_.find(layout);
    if (known != places_.end()) {
      recent_.splice(recent_.begin(), recent_, known->second);
      return recent_.front().second;
    }
    if (recent_.size() == capacity) {
      places_.erase(recent_.back().first);
      recent_.pop_back();
    }
    recent_.emplace_front(layout, create(layout));
    places_[layout] = recent_.begin();
    return recent_.front().second;
  }

 private:
  using Entries = std::list<std::pair<Layout, dnnl::matmul>>;
  static constexpr std::size_t capacity = 1024;
  std::mutex mutex_;
  Entries recent_;  // latest first
  std::map<Layout, Entries::iterator> places_;
};

void execute(const Layout& layout, const std::byte* a, const std::byte* b, float* c) {
  static PrimitiveCache cache;
  thread_local dnnl::stream stream(engine());
  auto memory = [](const dnnl::memory::desc& shape, const void* at) {
    return dnnl::memory(shape, engine(), const_cast<void*>(at));
  };
  cache.find(layout).execute(stream, {{DNNL_ARG_SRC, memory(layout.a(), a)},
                                      {DNNL_ARG_WEIGHTS, memory(layout.b(), b)},
                                      {DNNL_ARG_DST, memory(layout.c(), c)}});
  stream.wait();
}

/// c = alpha x + beta c, [rows, n]; beta = 0 does not read c.
void merge(std::int64_t rows, std::int64_t n, float alpha, const float* x, float beta, MatrixView<float> c) {
  parallel_for(rows, 1 + element_grain / n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* to = c.at(i, 0);
      const float* from = x + i * n;
      if (beta == 0)
        for (std::int64_t j = 0; j < n; ++j) to[j] = alpha * from[j];
      else
        for (std::int64_t j = 0; j < n; ++j) to[j] = alpha * from[j] + beta * to[j];
    }
  });
}

}  // namespace

bool prefers_sgemm(const Product<float>& product) {
  constexpr std::int64_t large = std::int64_t{1} << 21;
  return product.m * product.n * product.k >= large && std::min(product.m, product.n) >= smallest_part &&
         has_instructions(dnnl::cpu_isa::avx512_core);
}

bool takes(const Product<float>& product, const MatrixView<const float>& a, const MatrixView<const float>& b,
           const MatrixView<float>& c) {
  auto one_unit_stride = [](const auto& x, std::int64_t rows, std::int64_t columns) {
    return (x.column_stride == 1 && x.row_stride >= columns) || (x.row_stride == 1 && x.column_stride >= rows);
  };
  return one_unit_stride(a, product.m, product.k) && one_unit_stride(b, product.k, product.n) && c.column_stride == 1 &&
         c.row_stride >= product.n;
}

void sgemm(const Product<float>& product, MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
  auto by_rows = [](const auto& x, std::int64_t columns) { return x.column_stride == 1 && x.row_stride >= columns; };
  bool a_rows = by_rows(a, product.k), b_rows = by_rows(b, product.n);
  auto status = dnnl_sgemm(a_rows ? 'N' : 'T', b_rows ? 'N' : 'T', product.m, product.n, product.k, product.alpha,
                           a.data, a_rows ? a.row_stride : a.column_stride, b.data,
                           b_rows ? b.row_stride : b.column_stride, product.beta, c.data, c.row_stride);
  require(status == dnnl_success, "gemm: oneDNN refused [{}, {}] times [{}, {}] (status {})", product.m, product.k,
          product.k, product.n, static_cast<int>(status));
}

bool has_bf16() { return has_instructions(dnnl::cpu_isa::avx512_core_bf16); }

void multiply_rounded(const Product<float>& product, MatrixView<const float> a, MatrixView<const float> b,
                      MatrixView<float> c) {
  auto [m, n, k, alpha, beta] = product;
  // Batches have any number of rows: rounded up, few shapes come up. Most of the rows go straight to c, in steps of
  // whole_step; the rest makes a detour.
  constexpr std::int64_t whole_step = 256, step = 64;
  std::int64_t whole = alpha == 1 && beta == 0 ? m / whole_step * whole_step : 0, rest = round_up(m - whole, step);
  std::int64_t depth = round_up(k, step);
  DType operand = has_bf16() ? DType::bf16 : DType::f32;
  auto rounded = operand == DType::bf16 ? rounded_copy<bf16> : rounded_copy<float>;
  Tensor left = rounded(a, m, k, whole + rest, depth), right = rounded(b, k, n, depth, n);
  if (whole > 0) execute({whole, n, depth, c.row_stride, operand}, left.address(), right.address(), c.data);
  if (rest > 0) {
    Tensor last = Tensor::empty({rest, n});
    execute({rest, n, depth, n, operand}, left.slice(0, whole, whole + rest).address(), right.address(),
            last.data<float>());
    merge(m - whole, n, alpha, last.data<float>(), beta, c.from(whole, 0));
  }
}

}  // namespace fovea::onednn
