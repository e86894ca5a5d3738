// Reductions on the CPU.
//
// Tried, and not exact enough: blocks of 1024 elements on every machine, 64 to a lane of a vector with four lanes. The
// sum of 2^18 equal f32 missed the promised 5e-7. A lane adds up 16 elements, for which sums of 65536 take 1 % longer
// on AVX2.
#include "tensor/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "tensor/cpu/parallel.h"
#include "tensor/cpu/row_loop.h"
#include "tensor/formula/reductions.h"
#include "tensor/provide.h"
#include "tensor/reduction_loops.h"

namespace fovea::cpu {

namespace {

// Totals are f64 for inputs of f32 and f64. Additions in f32 happen only within a block: 16 elements in each lane of
// four vectors along a row, or 128 elements of a column. So the error stays that of a pairwise sum, however long the
// reduced dimension is.
constexpr std::int64_t row_block = 4 * 16 * Vec<float>::lanes, column_block = 128;
constexpr std::int64_t stripe = 256;     // columns summed together: their totals stay in the first-level cache
constexpr std::int64_t most_items = 32;  // most parts of work; fixed, so that results do not depend on the threads

template <class Op, int distance = 0, class T>
FOVEA_INLINE T join_lanes(Vec<T> v) {
  constexpr int step = distance ? distance : Vec<T>::lanes / 2;
  v = Op::join(v, swapped<step>(v));
  if constexpr (step > 1)
    return join_lanes<Op, step / 2>(v);
  else
    return v[0];
}

template <class Op, class T>
T reduce_block(const T* x, std::int64_t n) {
  using V = Vec<T>;
  const V identity(static_cast<T>(Op::identity));
  V part[4] = {identity, identity, identity, identity};
  std::int64_t i = 0;
  for (; i + 4 * V::lanes <= n; i += 4 * V::lanes)
    for (int k = 0; k < 4; ++k) part[k] = Op::join(part[k], V::load(x + i + k * V::lanes));
  for_vectors<T>(n - i, [&](std::int64_t j, auto count) {
    part[0] = Op::join(part[0], filled(load_vector(x + i + j, count), count, static_cast<T>(Op::identity)));
  });
  return join_lanes<Op>(Op::join(Op::join(part[0], part[1]), Op::join(part[2], part[3])));
}

template <class Op, class T>
double reduce_row(const T* x, std::int64_t n) {
  double total = Op::identity;
  for (std::int64_t begin = 0; begin < n; begin += row_block)
    total = Op::join(total, static_cast<double>(reduce_block<Op>(x + begin, std::min(row_block, n - begin))));
  return total;
}

/// The totals of up to `stripe` neighbouring columns. Rows are added one at a time, and joined in registers, eight at
/// once.
template <class Op, class T>
class ColumnTotals {
 public:
  explicit ColumnTotals(std::int64_t width) : width_(width) {
    std::fill_n(total_, width, Op::identity);
    std::fill_n(part_, width, static_cast<T>(Op::identity));
  }

  void add(const T* row) {
    pending_[count_++] = row;
    if (count_ == 8) join_pending();
  }

  const double* finish() {
    for (int k = 0; k < count_; ++k)
      for_vectors<T>(width_, [&](std::int64_t c, auto count) {
        store_vector(Op::join(load_vector(part_ + c, count), load_vector(pending_[k] + c, count)), part_ + c, count);
      });
    flush();
    return total_;
  }

 private:
  void join_pending() {
    auto& row = pending_;
    for_vectors<T>(width_, [&](std::int64_t c, auto count) {
      auto load = [=](const T* from) { return load_vector(from + c, count); };
      auto low = Op::join(Op::join(load(row[0]), load(row[1])), Op::join(load(row[2]), load(row[3])));
      auto high = Op::join(Op::join(load(row[4]), load(row[5])), Op::join(load(row[6]), load(row[7])));
      store_vector(Op::join(load(part_), Op::join(low, high)), part_ + c, count);
    });
    count_ = 0;
    rows_ += 8;
    if (rows_ == column_block) flush();
  }

  void flush() {
    for (std::int64_t c = 0; c < width_; ++c) {
      total_[c] = Op::join(total_[c], static_cast<double>(part_[c]));
      part_[c] = static_cast<T>(Op::identity);
    }
    count_ = 0;
    rows_ = 0;
  }

  std::int64_t width_, rows_ = 0;
  int count_ = 0;
  const T* pending_[8];
  T part_[stripe];
  double total_[stripe];
};

/// The loops of a reduction without the innermost dimension of x, which may be kept or reduced: a row of either loop is
/// one place, where `inner` elements of x begin.
struct ReductionPlan : ReductionLoops {
  std::int64_t inner = 1, inner_step = 1, out_step = 0;  ///< steps in x and in the result

  ReductionPlan(const Tensor& x, const Tensor& out) : ReductionLoops(x, out) {
    Shape &of_inner = inner_is_kept ? kept.shape : reduced.shape, &others = inner_is_kept ? reduced.shape : kept.shape;
    inner = std::exchange(of_inner[-1], 1);
    inner_step = inner_is_kept ? kept.strides[0][-1] : reduced.strides[0][-1];
    if (inner_is_kept) out_step = kept.strides[1][-1];
    others.push_back(1);
  }
};

/// Computes results that are each the total of R rows of n contiguous elements. If there are few results, the rows (or
/// the elements of each row, if there are few long rows) are divided into `splits` parts for the threads, and the
/// parts' totals are joined in order.
template <class Op, class T>
void reduce_rows(const ReductionPlan& plan, const T* x, T* out) {
  std::int64_t results = plan.kept.rows(), R = plan.reduced.rows(), n = plan.inner;
  std::int64_t splits = results >= most_items ? 1 : std::clamp<std::int64_t>(R * n / element_grain, 1, most_items);
  bool split_rows = R >= splits;
  auto part = [&](const T* from, std::int64_t s) {
    std::int64_t r = split_rows ? R * s / splits : 0, r_end = split_rows ? R * (s + 1) / splits : R;
    std::int64_t i = split_rows ? 0 : n * s / splits, i_end = split_rows ? n : n * (s + 1) / splits;
    double total = Op::identity;
    plan.reduced.for_rows(
        r, r_end, [&](auto& offset) { total = Op::join(total, reduce_row<Op>(from + offset[0] + i, i_end - i)); });
    return total;
  };
  if (splits == 1) {
    parallel_for(results, 1 + element_grain / (R * n + 1), [&](std::int64_t begin, std::int64_t end) {
      plan.kept.for_rows(begin, end, [&](auto& offset) { out[offset[1]] = static_cast<T>(part(x + offset[0], 0)); });
    });
    return;
  }
  std::array<double, most_items * most_items> totals;
  parallel_for(results * splits, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item)
      plan.kept.for_rows(item / splits, item / splits + 1,
                         [&](auto& offset) { totals[item] = part(x + offset[0], item % splits); });
  });
  const double* first = totals.data();
  plan.kept.for_rows(0, results, [&](auto& offset) {
    double total = Op::identity;
    for (std::int64_t s = 0; s < splits; ++s) total = Op::join(total, *first++);
    out[offset[1]] = static_cast<T>(total);
  });
}

/// Computes results that are each the total of R elements, one in each of R contiguous rows. If there are few columns,
/// the rows are divided into `splits` parts for the threads, and the parts' totals are joined in order.
template <class Op, class T>
void reduce_columns(const ReductionPlan& plan, const T* x, T* out) {
  std::int64_t outer = plan.kept.rows(), R = plan.reduced.rows(), C = plan.inner;
  std::int64_t stripes = (C + stripe - 1) / stripe, units = outer * stripes;
  std::int64_t splits = units >= most_items || outer * R * C < 2 * element_grain
                            ? 1
                            : std::clamp<std::int64_t>(R / 32, 1, most_items / units);
  Tensor scratch;
  if (splits > 1) scratch = Tensor::empty({units * splits, stripe}, DType::f64);
  double* totals = splits > 1 ? scratch.mutable_data<double>() : nullptr;

  auto write = [&](T* to, const double* total, std::int64_t width) {
    for (std::int64_t c = 0; c < width; ++c) to[c * plan.out_step] = static_cast<T>(total[c]);
  };
  parallel_for(units * splits, 1 + element_grain / (R * std::min(C, stripe) / splits + 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t item = begin; item < end; ++item) {
                   std::int64_t unit = item / splits, s = item % splits, column = unit % stripes * stripe;
                   std::int64_t width = std::min(stripe, C - column);
                   plan.kept.for_rows(unit / stripes, unit / stripes + 1, [&](auto& start) {
                     ColumnTotals<Op, T> columns(width);
                     const T* from = x + start[0] + column;
                     plan.reduced.for_rows(R * s / splits, R * (s + 1) / splits,
                                           [&](auto& offset) { columns.add(from + offset[0]); });
                     const double* total = columns.finish();
                     if (splits > 1)
                       std::copy_n(total, width, totals + item * stripe);
                     else
                       write(out + start[1] + column * plan.out_step, total, width);
                   });
                 }
               });
  if (splits == 1) return;
  for (std::int64_t unit = 0; unit < units; ++unit) {
    std::int64_t column = unit % stripes * stripe, width = std::min(stripe, C - column);
    double* first = totals + unit * splits * stripe;
    for (std::int64_t s = 1; s < splits; ++s)
      for (std::int64_t c = 0; c < width; ++c) first[c] = Op::join(first[c], first[s * stripe + c]);
    plan.kept.for_rows(unit / stripes, unit / stripes + 1,
                       [&](auto& start) { write(out + start[1] + column * plan.out_step, first, width); });
  }
}

/// Adds integers of type T to the results, in i64; exact up to 2^63.
template <class T>
void add_integers(const ElementLoop<2>& loop, const T* x, std::int64_t* out) {
  const std::int64_t step = loop.strides[0][-1], out_step = loop.strides[1][-1];
  loop.for_rows(0, loop.rows(), [&](auto& offset) {
    const T* from = x + offset[0];
    if (out_step == 0) {
      std::int64_t total = 0;
      if (step == 1)
        for (std::int64_t i = 0; i < loop.inner(); ++i) total += static_cast<std::int64_t>(from[i]);
      else
        for (std::int64_t i = 0; i < loop.inner(); ++i) total += static_cast<std::int64_t>(from[i * step]);
      out[offset[1]] += total;
    } else {
      for (std::int64_t i = 0; i < loop.inner(); ++i)
        out[offset[1] + i * out_step] += static_cast<std::int64_t>(from[i * step]);
    }
  });
}

template <class Op>
void reduce(const Op& op, const Tensor& x, Tensor& out) {
  if (x.elements() == 0 || !is_float(x.dtype())) out.fill(Op::identity);
  if (x.elements() == 0) return;
  const ReductionPlan plan(x, out);
  if (!is_float(x.dtype()))
    return visit(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      if constexpr (std::is_integral_v<T>) add_integers(plan.all, x.data<T>(), out.mutable_data<std::int64_t>());
    });
  if (plan.inner > 1 && plan.inner_step != 1) return reduce(op, x.contiguous(), out);
  visit_real(Op::name, x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    if (plan.inner_is_kept)
      reduce_columns<Op>(plan, x.data<T>(), out.mutable_data<T>());
    else
      reduce_rows<Op>(plan, x.data<T>(), out.mutable_data<T>());
  });
}

/// Returns Σ (scale · x)². Without a scale, the sum for f32 never overflows.
template <class T>
double sum_of_squares(const T* x, std::int64_t n, double scale) {
  constexpr int lanes = 16;
  double part[lanes] = {};
  auto square = [scale](T x) {
    const double scaled = static_cast<double>(x) * scale;
    return scaled * scaled;
  };
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int k = 0; k < lanes; ++k) part[k] += square(x[i + k]);
  for (; i < n; ++i) part[0] += square(x[i]);
  return std::accumulate(part, part + lanes, 0.0);
}

/// Returns Σ (scale · x)² over all elements of the tensors. Adds up the squares in pieces of a fixed size, and then the
/// pieces, so the result does not depend on the number of threads.
double sum_of_squares(std::span<const Tensor> tensors, double scale) {
  constexpr std::int64_t piece = 16384;
  double total = 0;
  for (const Tensor& x : tensors) {
    const Tensor flat = x.is_dense() ? x : x.contiguous();
    const std::int64_t n = flat.elements();
    std::vector<double> sums(static_cast<std::size_t>((n + piece - 1) / piece));
    visit_real("global_norm", flat.dtype(), [&](auto type) {
      const auto* first = flat.data<typename decltype(type)::type>();
      parallel_for(std::ssize(sums), 2, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t s = begin; s < end; ++s)
          sums[static_cast<std::size_t>(s)] = sum_of_squares(first + s * piece, std::min(piece, n - s * piece), scale);
      });
    });
    total = std::accumulate(sums.begin(), sums.end(), total);
  }
  return total;
}

/// Writes the Euclidean norm of all elements of the tensors into `out`. Where squares of f64 overflow or underflow, it
/// computes again with scaled elements.
void global_norm(std::span<const Tensor> tensors, Tensor& out) {
  constexpr double least = 0x1p-900, most = std::numeric_limits<double>::max();
  double total = sum_of_squares(tensors, 1), scale = 1;
  if (!(total <= most))
    total = sum_of_squares(tensors, scale = 0x1p-600);
  else if (total < least)
    total = sum_of_squares(tensors, scale = 0x1p600);
  *out.mutable_data<double>() = std::sqrt(total) / scale;
}

const Provide provide(Device::cpu, [](Kernels& table) {
  provide_list(table, &Kernels::reductions, formula::Reductions{},
               [](const auto& op, const Tensor& x, Tensor& out) { reduce(op, x, out); });
  table.global_norm = global_norm;
});

}  // namespace
}  // namespace fovea::cpu
