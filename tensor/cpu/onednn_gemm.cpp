// Tried, and did not pay:
// - bf16 products without keeping their rounded operands: a step takes 3 to 4 % more processor time (`benchmark step
//   --threads 1 --precision bf16`).
// - Looking at every kept operand for those to release: 89 µs a product with 8000 operands alive.
#include "tensor/cpu/onednn_gemm.h"

#include <algorithm>
#include <compare>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include <oneapi/dnnl/dnnl.hpp>

#include "tensor/cpu/parallel.h"
#include "tensor/cpu/threads.h"
#include "tensor/tensor.h"

namespace fovea::onednn {

namespace {

bool has_instructions(dnnl::cpu_isa wanted) {
  static const auto here = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  auto bits = static_cast<unsigned>(wanted);
  return (here & bits) == bits;
}

std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

/// A copy of a matrix that is rounded to bf16. Its sizes are filled up with zeros to multiples of `step`. It keeps the
/// matrix's order of dimensions in memory, because transposing would take longer than the product and oneDNN accepts
/// both orders. The elements are stored as bf16, or as rounded values in f32 on machines without bf16 instructions.
struct RoundedCopy {
  static constexpr std::int64_t step = 64;

  // the matrix that was copied
  std::uint64_t version;  ///< the version of the matrix's storage when it was copied
  MatrixView<const float> from;
  std::int64_t rows, columns;

  Tensor elements;
  std::int64_t row_stride, column_stride;
};

template <class Stored>
Tensor rounded_rows(MatrixView<const float> from, std::int64_t rows, std::int64_t columns) {
  const std::int64_t width = round_up(columns, RoundedCopy::step), all_rows = round_up(rows, RoundedCopy::step);
  Tensor out = Tensor::empty({all_rows, width}, dtype_of<Stored>);
  Stored* first = out.mutable_data<Stored>();
  parallel_for(all_rows, 1 + element_grain / width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Stored* to = first + i * width;
      const std::int64_t used = i < rows ? columns : 0;
      const float* row = from.at(i, 0);
      if (from.column_stride == 1)
        for (std::int64_t j = 0; j < used; ++j) to[j] = static_cast<Stored>(bf16(row[j]));
      else
        for (std::int64_t j = 0; j < used; ++j) to[j] = static_cast<Stored>(bf16(row[j * from.column_stride]));
      std::fill(to + used, to + width, Stored());
    }
  });
  return out;
}

RoundedCopy make_rounded(const Operand& x, std::int64_t rows, std::int64_t columns) {
  auto copy = has_bf16() ? rounded_rows<bf16> : rounded_rows<float>;
  const bool turned = x.view.column_stride != 1 && x.view.row_stride == 1;
  Tensor elements = turned ? copy(x.view.transposed(), columns, rows) : copy(x.view, rows, columns);
  const std::int64_t width = elements.size(1), row_stride = turned ? 1 : width, column_stride = turned ? width : 1;
  return {x.tensor.version(), x.view, rows, columns, elements, row_stride, column_stride};
}

using Storage = std::weak_ptr<const void>;
/// The rounded copy of each storage that was a factor.
using RoundedCopies = std::map<Storage, RoundedCopy, std::owner_less<>>;

/// Releases those of the next few copies after `last` whose storages no longer exist, and moves `last` on. To look at
/// all of thousands of copies would take longer than a small product; a few for each new copy keep up with all.
void release_some(RoundedCopies& copies, Storage& last) {
  constexpr int few = 16;
  auto next = copies.upper_bound(last);
  for (int k = 0; k < few && !copies.empty(); ++k) {
    if (next == copies.end()) next = copies.begin();
    last = next->first;
    next = last.expired() ? copies.erase(next) : std::next(next);
  }
}

/// Returns a rounded copy of the matrix x. If an earlier product had this matrix or its transpose as a factor, and the
/// storage has not changed since, it is the copy made then: by the forward pass, or by the previous step if the weights
/// are still the same (without this cache, a step takes 3 to 4 % longer). Otherwise it is a new copy, which replaces
/// the storage's old one; copies of storages that no longer exist are then released, a few at a time.
RoundedCopy rounded(const Operand& x, std::int64_t rows, std::int64_t columns) {
  static std::mutex mutex;
  static RoundedCopies copies;
  static Storage last;
  const Storage storage = x.tensor.storage();
  {
    std::lock_guard lock(mutex);
    if (auto known = copies.find(storage); known != copies.end() && known->second.version == x.tensor.version()) {
      RoundedCopy copy = known->second;
      if (copy.from == x.view && copy.rows == rows && copy.columns == columns) return copy;
      std::swap(copy.row_stride, copy.column_stride);
      if (copy.from == x.view.transposed() && copy.rows == columns && copy.columns == rows) return copy;
    }
  }
  RoundedCopy made = make_rounded(x, rows, columns);
  std::lock_guard lock(mutex);
  release_some(copies, last);
  copies.insert_or_assign(storage, made);
  return made;
}

/// The sizes, strides and types of a product c = a b: a [m, k] and b [k, n] have the type `operand`, and c [m, n] is
/// f32 with row stride c_row. oneDNN's compiled code is cached by this key.
struct Layout {
  std::int64_t m, n, k, a_row, a_column, b_row, b_column, c_row;
  bool accumulates;  ///< computes c += a b
  DType operand;
  auto operator<=>(const Layout&) const = default;

  dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                            std::int64_t column_stride, DType type) const {
    using dnnl::memory;
    auto element = type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    return {memory::dims{rows, columns}, element, memory::dims{row_stride, column_stride}};
  }
  dnnl::memory::desc a() const { return matrix(m, k, a_row, a_column, operand); }
  dnnl::memory::desc b() const { return matrix(k, n, b_row, b_column, operand); }
  dnnl::memory::desc c() const { return matrix(m, n, c_row, 1, DType::f32); }
  dnnl::primitive_attr attributes() const {
    dnnl::primitive_attr attributes;
    if (!accumulates) return attributes;
    dnnl::post_ops sum;
    sum.append_sum(1);
    attributes.set_post_ops(sum);
    return attributes;
  }
};

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::matmul create(const Layout& layout) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul(dnnl::matmul::primitive_desc(engine(), layout.a(), layout.b(), layout.c(), layout.attributes()));
#else
  return dnnl::matmul(
      dnnl::matmul::primitive_desc({layout.a(), layout.b(), layout.c()}, layout.attributes(), engine()));
#endif
}

/// Keeps the code that oneDNN compiled for the last thousand layouts: compiling takes 0.2 to 0.65 ms for each.
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
  Entries recent_;  // most recently used first
  std::map<Layout, Entries::iterator> places_;
};

void execute(const Layout& layout, const std::byte* a, const std::byte* b, float* c) {
  prepare_team(available_threads());
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

/// Computes c = alpha x + beta c, where x and c are [rows, n]; beta = 0 does not read c.
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
  prepare_team(available_threads());
  bool a_rows = by_rows(a, product.k), b_rows = by_rows(b, product.n);
  auto status = dnnl_sgemm(a_rows ? 'N' : 'T', b_rows ? 'N' : 'T', product.m, product.n, product.k, product.alpha,
                           a.data, a_rows ? a.row_stride : a.column_stride, b.data,
                           b_rows ? b.row_stride : b.column_stride, product.beta, c.data, c.row_stride);
  require(status == dnnl_success, "gemm: oneDNN refused [{}, {}] times [{}, {}] (status {})", product.m, product.k,
          product.k, product.n, static_cast<int>(status));
}

bool has_bf16() { return has_instructions(dnnl::cpu_isa::avx512_core_bf16); }

void multiply_rounded(const Product<float>& product, const Operand& a, const Operand& b, MatrixView<float> c) {
  const std::int64_t m = product.m, n = product.n, k = product.k;
  const float alpha = product.alpha, beta = product.beta;
  const RoundedCopy left = rounded(a, m, k), right = rounded(b, k, n);
  const auto element = static_cast<std::int64_t>(size_of(left.elements.dtype()));
  auto multiply = [&](std::int64_t first, std::int64_t rows, float* to, std::int64_t to_row, bool accumulates) {
    execute({rows, n, round_up(k, RoundedCopy::step), left.row_stride, left.column_stride, right.row_stride,
             right.column_stride, to_row, accumulates, left.elements.dtype()},
            left.elements.address() + first * left.row_stride * element, right.elements.address(), to);
  };
  // The number of rows differs from batch to batch, and oneDNN compiles code for each number. So that few numbers
  // occur, as many rows as possible are computed in a multiple of 256; the rest is rounded up to a multiple of 32 in a
  // temporary result.
  constexpr std::int64_t whole_step = 256, step = 32;
  const bool direct = alpha == 1 && (beta == 0 || beta == 1);
  for (std::int64_t first = 0; first < m;) {
    std::int64_t rows = first == 0 && m >= whole_step ? m / whole_step * whole_step : m - first;
    if (direct && rows % step == 0) {
      multiply(first, rows, c.at(first, 0), c.row_stride, beta == 1);
    } else {
      Tensor apart = Tensor::empty({round_up(rows, step), n});
      multiply(first, apart.size(0), apart.mutable_data<float>(), n, false);
      merge(rows, n, alpha, apart.data<float>(), beta, c.from(first, 0));
    }
    first += rows;
  }
}

}  // namespace fovea::onednn
