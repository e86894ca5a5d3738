// The CPU's kernels that gather elements by index, and those that scatter and add, which are the backward pass of
// gathering.
//
// Tried, and did not pay (`benchmark kernels` has the rates now):
// - Taking the result's address for writing in each row: an atomic count each time. 4096 rows of 64 took 62 µs, not 16.
// - Adding many rows to one in f32: 10^7 additions of 0.1 gave 1087937 for 10^6.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/cpu/row_loop.h"
#include "tensor/cpu/simd.h"
#include "tensor/kernels.h"
#include "tensor/requirements.h"

namespace fovea::cpu {

namespace {

void check_range(const RangeCheck& check, const Tensor& index) {
  Tensor at = index.contiguous();
  visit_index(check.what, at.dtype(), [&](auto type) {
    using I = typename decltype(type)::type;
    const I *first = at.data<I>(), *last = first + at.elements();
    auto is_inside = [&](I i) { return check.holds(i); };
    bool all = true;  // a first pass without branches, which the compiler vectorises
    for (const I* i = first; i != last; ++i) all &= is_inside(*i);
    if (all) return;
    const I* outside = std::find_if_not(first, last, is_inside);
    check.fail_at(outside - first, *outside);
  });
}

/// Whether each row of x is contiguous, and all rows, in row-major order, lie at the same distance from each other.
bool has_even_rows(const Tensor& x) {
  if (x.rank() < 2) return x.is_contiguous();
  return (x.size(-1) <= 1 || x.strides()[-1] == 1) && (x.rank() == 2 || x.is_contiguous());
}

void gather_rows(const RangeCheck& check, const Tensor& table, const Tensor& index, Tensor& out) {
  check_range(check, index);
  if (out.elements() == 0) return;
  if (!has_even_rows(out)) {
    Tensor dense = Tensor::empty(out.shape(), out.dtype());
    gather_rows(check, table, index, dense);
    return out.copy_from(dense);
  }
  Tensor from = with_unit_rows(table), at = index.contiguous();
  std::size_t bytes = static_cast<std::size_t>(table.size(1)) * size_of(table.dtype());
  auto bytes_between = [](const Tensor& x, int dim) {
    return x.strides()[dim] * static_cast<std::int64_t>(size_of(x.dtype()));
  };
  std::int64_t step = bytes_between(from, 0), out_step = out.rank() > 1 ? bytes_between(out, -2) : 0;
  visit_index("gather_rows", at.dtype(), [&](auto type) {
    using I = typename decltype(type)::type;
    const I* picked = at.data<I>();
    const std::byte* source = from.address();
    std::byte* to = out.mutable_address();
    parallel_for(at.elements(), 1 + element_grain / (table.size(1) + 1), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        std::memcpy(to + row * out_step, source + picked[row] * step, bytes);
    });
  });
}

/// The most rows that are added to one row of a table in f32, one after the other. The error of a sum grows with the
/// number of its terms: 10^7 equal ones were off by 9 %.
constexpr std::int64_t longest_sum = 512;

/// The rows of a table that an index names more than longest_sum times. They are summed in f64.
template <class I>
class FrequentRows {
 public:
  FrequentRows(const I* index, std::int64_t count, std::int64_t table_rows) {
    if (count <= longest_sum) return;
    std::vector<std::int64_t> uses(static_cast<std::size_t>(table_rows));
    for (std::int64_t i = 0; i < count; ++i)
      if (++uses[static_cast<std::size_t>(index[i])] == longest_sum + 1) rows.push_back(index[i]);
    if (rows.empty()) return;
    std::fill(uses.begin(), uses.end(), none);
    for (std::size_t k = 0; k < rows.size(); ++k)
      uses[static_cast<std::size_t>(rows[k])] = static_cast<std::int64_t>(k);
    places_ = std::move(uses);
  }
  /// Returns the place of the table's row `row` in `rows`, or `none`.
  std::int64_t place(I row) const { return places_.empty() ? none : places_[static_cast<std::size_t>(row)]; }

  static constexpr std::int64_t none = -1;
  std::vector<I> rows;

 private:
  std::vector<std::int64_t> places_;  // of all rows of the table; empty if there are no frequent ones
};

/// Adds columns begin ≤ d < end of rows[row] to table[index[row]], for all rows in order.
template <class T, class I>
void add_columns(Rows<T> table, const I* index, std::int64_t count, Rows<const T> rows, std::int64_t begin,
                 std::int64_t end, const FrequentRows<I>& frequent) {
  using V = Vec<T>;
  const std::int64_t width = end - begin;
  std::vector<double> totals(frequent.rows.size() * static_cast<std::size_t>(width));
  for (std::int64_t row = 0; row < count; ++row) {
    const T* from = rows[row];
    if (const std::int64_t place = frequent.place(index[row]); place != frequent.none) {
      double* total = totals.data() + place * width;
      for (std::int64_t d = 0; d < width; ++d) total[d] += static_cast<double>(from[begin + d]);
      continue;
    }
    T* to = table[index[row]];
    std::int64_t d = begin;
    for (; d + V::lanes <= end; d += V::lanes) (V::load(to + d) + V::load(from + d)).store(to + d);
    for (; d < end; ++d) to[d] += from[d];
  }
  for (std::size_t k = 0; k < frequent.rows.size(); ++k) {
    const double* total = totals.data() + k * static_cast<std::size_t>(width);
    T* to = table[frequent.rows[k]];
    for (std::int64_t d = begin; d < end; ++d) to[d] = static_cast<T>(static_cast<double>(to[d]) + total[d - begin]);
  }
}

/// Adds every row of `rows` to its row of the table. The columns are divided among the threads, so that every element
/// is summed in row order by one thread. They are divided in units of 16, a cache line of f32.
void add_all_rows(Tensor& table, const Tensor& at, const Tensor& rows) {
  constexpr std::int64_t line = 16;
  std::int64_t width = table.size(1), count = at.elements();
  visit_real("scatter_add_rows", table.dtype(), [&](auto real) {
    using T = typename decltype(real)::type;
    visit_index("scatter_add_rows", at.dtype(), [&](auto index) {
      using I = typename decltype(index)::type;
      Rows<T> to(table);
      Rows<const T> from(rows);
      const FrequentRows<I> frequent(at.data<I>(), count, table.size(0));
      std::int64_t lines = (width + line - 1) / line;
      parallel_for(lines, 1 + element_grain / (count * line + 1), [&](std::int64_t begin, std::int64_t end) {
        add_columns(to, at.data<I>(), count, from, begin * line, std::min(end * line, width), frequent);
      });
    });
  });
}

void scatter_add_rows(const RangeCheck& check, Tensor& table, const Tensor& index, const Tensor& rows) {
  check_range(check, index);
  if (rows.elements() == 0) return;
  Tensor from = with_unit_rows(rows.reshape({index.elements(), table.size(1)}));
  if (table.size(1) <= 1 || table.strides()[1] == 1) return add_all_rows(table, index.contiguous(), from);
  Tensor dense = table.contiguous();
  add_all_rows(dense, index.contiguous(), from);
  table.copy_from(dense);
}

void gather_last(const Tensor& x, const Tensor& index, Tensor& out) {
  Tensor from = with_unit_rows(x), at = index.contiguous();
  auto loop = plan_rows<3>(leading_shape(out.shape()), {&out, &from, &at});
  std::int64_t n = index.size(-1);
  visit_index("gather_last", at.dtype(), [&](auto index_type) {
    using I = typename decltype(index_type)::type;
    visit(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      T* to = out.mutable_data<T>();
      const T* source = from.data<T>();
      const I* first = at.data<I>();
      parallel_rows(loop, n, [&](auto& offset) {
        for (std::int64_t j = 0; j < n; ++j) to[offset[0] + j] = source[offset[1] + first[offset[2] + j]];
      });
    });
  });
}

/// Adds x[j] to out[index[j]] for all j. Neighbours with equal indices (as at the clipped ends of relative positions)
/// are first summed in f64 in a register.
template <class Out, class T, class I>
void add_at(Out* out, const I* index, const T* x, std::int64_t n) {
  for (std::int64_t j = 0; j < n;) {
    I at = index[j];
    double run = static_cast<double>(x[j++]);
    while (j < n && index[j] == at) run += static_cast<double>(x[j++]);
    out[at] = static_cast<Out>(static_cast<double>(out[at]) + run);
  }
}

/// The same for the `size` elements of a row of zeros, which are summed in f64 if there may be many terms.
template <class T, class I>
void add_row_at(T* out, std::int64_t size, const I* index, const T* x, std::int64_t n) {
  if (n <= longest_sum) return add_at(out, index, x, n);
  std::vector<double> totals(static_cast<std::size_t>(size));
  add_at(totals.data(), index, x, n);
  for (std::int64_t j = 0; j < size; ++j) out[j] = static_cast<T>(totals[static_cast<std::size_t>(j)]);
}

void scatter_add_last(const Tensor& x, const Tensor& index, Tensor& out) {
  out.fill(0);
  Tensor from = with_unit_rows(x), at = index.contiguous();
  const std::int64_t size = out.size(-1);
  auto loop = plan_rows<3>(leading_shape(x.shape()), {&out, &from, &at});
  std::int64_t n = x.size(-1);
  visit_index("scatter_add_last", at.dtype(), [&](auto index_type) {
    using I = typename decltype(index_type)::type;
    visit_real("scatter_add_last", x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      T* to = out.mutable_data<T>();
      const T* source = from.data<T>();
      const I* first = at.data<I>();
      parallel_rows(loop, n + size,
                    [&](auto& offset) { add_row_at(to + offset[0], size, first + offset[2], source + offset[1], n); });
    });
  });
}

const Provide provide(Device::cpu, [](Kernels& table) {
  table.check_range = check_range;
  table.gather_rows = gather_rows;
  table.scatter_add_rows = scatter_add_rows;
  table.gather_last = gather_last;
  table.scatter_add_last = scatter_add_last;
});

}  // namespace
}  // namespace fovea::cpu
