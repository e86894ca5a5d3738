/// Row formulas (tensor/formula/row.h) on the CPU: a Row that walks its elements in SIMD vectors, and the loop
/// over all rows of a tensor.
#pragma once
#include <algorithm>
#include <array>

#include "tensor/cpu/row_loop.h"
#include "tensor/provide.h"
#include "tensor/random.h"
#include "tensor/reduce.h"
#include "tensor/rows.h"

namespace fovea::cpu {

/// Returns a mask that is true in the lanes whose byte is not 0; reads one byte per lane.
template <class T>
FOVEA_INLINE LaneMask<T> nonzero(const std::uint8_t* bytes) {
  // The lanes are written out one by one: GCC 12 compiles that to one instruction, but __builtin_convertvector to many.
  return [&]<int... lane>(std::integer_sequence<int, lane...>) {
    return LaneMask<T>{typename LaneMask<T>::Native{bytes[lane]...} != 0};
  }
  (std::make_integer_sequence<int, Vec<T>::lanes>{});
}

/// Replaces each element of a row by the sum of all elements up to and including it, or with `reverse` by the sum of it
/// and all later elements. Sums are accumulated in f64.
template <class T>
void running_sums(T* row, std::int64_t n, bool reverse) {
  using D = Vec<double>;
  const std::int64_t whole = n / D::lanes * D::lanes;
  double total = 0;
  auto add_rest = [&] {
    for (std::int64_t k = 0; k < n - whole; ++k) {
      T& x = row[reverse ? n - 1 - k : whole + k];
      x = static_cast<T>(total += static_cast<double>(x));
    }
  };
  if (reverse) add_rest();
  for (std::int64_t j = 0; j < whole; j += D::lanes) {
    T* first = row + (reverse ? whole - D::lanes - j : j);
    double block[D::lanes];
    std::copy_n(first, D::lanes, block);
    const D sums = (reverse ? suffix_sums(D::load(block)) : prefix_sums(D::load(block))) + D(total);
    total = sums[reverse ? 0 : D::lanes - 1];
    sums.store(block);
    for (int lane = 0; lane < D::lanes; ++lane) first[lane] = static_cast<T>(block[lane]);
  }
  if (!reverse) add_rest();
}

/// The place of a vector in a row: the index of its first element, and how many of its lanes lie in the row. `chunk` is
/// the number of the vector in the row if that is known at compile time, otherwise −1.
template <class Count, int chunk_ = -1>
struct Place {
  static constexpr int chunk = chunk_;
  std::int64_t first;
  Count count;
};

/// The operands of one row, with the methods that a formula calls (listed in tensor/formula/row.h). If `chunks` is not
/// 0, the row has that many vectors, and keep() holds its values in registers. If it is 0, the row has any length.
template <class T, class Formula, bool masked, int chunks>
class Row {
 public:
  using Number = T;
  using V = Vec<T>;
  static constexpr int lanes = V::lanes;
  static constexpr std::size_t operands = Formula::inputs.size() + Formula::outputs.size();

  std::array<void*, operands> first;  ///< addresses of the inputs, then of the outputs
  const std::uint8_t* allow;          ///< the mask, padded with 0 to whole vectors; null if there is none
  T* columns;                         ///< the column sums to add to, [Formula::column_sums, n]
  std::int64_t n;
  std::int64_t begin;  ///< the number of elements before this row in an output that has elements

  std::int64_t size() const { return n; }

  template <class At>
  FOVEA_INLINE V in(int k, At at) const {
    return load_vector(static_cast<const T*>(first[k]) + at.first, at.count);
  }
  template <class At>
  FOVEA_INLINE V allowed_or(int k, At at, T otherwise) const {
    if constexpr (masked)
      return select(nonzero<T>(allow + at.first), in(k, at), V(otherwise));
    else
      return filled(in(k, at), at.count, otherwise);
  }
  T element(int k, std::int64_t j) const { return static_cast<const T*>(first[k])[j]; }
  T number(int k) const { return *static_cast<const T*>(first[k]); }
  double precise_number(int k) const { return *static_cast<const double*>(first[k]); }
  std::int64_t index(int k) const { return *static_cast<const std::int64_t*>(first[k]); }

  template <class F>
  FOVEA_INLINE T maximum(const F& f) const {
    V most(-formula::infinity<T>);
    for_places([&](auto at) {
      V next = filled(f(at), at.count, -formula::infinity<T>);
      most = select(most < next, next, most);
    });
    return horizontal_max(most);
  }

  template <class F>
  FOVEA_INLINE double sum(const F& f) const {
    return sums([&](auto at) { return std::array{f(at)}; })[0];
  }

  /// Sums up blocks of 2048 elements in T, in four independent accumulators, and adds the blocks' sums in f64. A row
  /// that stays in registers is one block with one accumulator.
  template <class F>
  FOVEA_INLINE auto sums(const F& f) const {
    constexpr std::size_t count = std::tuple_size_v<decltype(f(Place<WholeVector<T>, chunks - 1>{}))>;
    std::array<double, count> total{};
    if constexpr (chunks > 0) {
      V part[count];
      std::fill_n(part, count, V(T(0)));
      for_places([&](auto at) { add(part, f(at), at.count); });
      for (std::size_t k = 0; k < count; ++k) total[k] = static_cast<double>(horizontal_sum(part[k]));
    } else {
      constexpr std::int64_t block = 2048;
      for (std::int64_t begin = 0; begin < n; begin += block) {
        auto of_block = block_sums<count>(f, begin, std::min(n, begin + block));
        for (std::size_t k = 0; k < count; ++k) total[k] += static_cast<double>(of_block[k]);
      }
    }
    return total;
  }

  template <class F>
  FOVEA_INLINE auto keep(int k, const F& f) const {
    if constexpr (chunks > 0) {
      std::array<V, chunks> values;
      for_places([&](auto at) { values[decltype(at)::chunk] = f(at); });
      return [values](auto at) { return values[decltype(at)::chunk]; };
    } else {
      return write(k, f);
    }
  }

  template <class F>
  FOVEA_INLINE auto write(int k, const F& f) const {
    T* to = output(k);
    for_places([&](auto at) { store_vector(f(at), to + at.first, at.count); });
    return written(k);
  }
  /// Stores the factors of the whole row, because a vector of the row may lie in two groups of the mask.
  FOVEA_INLINE auto dropout_factors(int k, const DropoutMask& mask) const {
    fovea::dropout_factors(mask, 0, begin, begin + n, output(k) - begin);
    return written(k);
  }
  template <class F>
  void scan(int k, const F& f, bool reverse) const {
    write(k, f);
    running_sums(output(k), n, reverse);
  }
  void write_element(int k, std::int64_t j, T x) const { output(k)[j] = x; }
  void write_number(int k, T x) const { *output(k) = x; }
  void write_precise_number(int k, double x) const { *reinterpret_cast<double*>(output(k)) = x; }

  template <class F>
  FOVEA_INLINE void add_to_column(int k, const F& f) const {
    T* to = columns + k * n;
    for_places([&](auto at) { store_vector(load_vector(to + at.first, at.count) + f(at), to + at.first, at.count); });
  }

 private:
  T* output(int k) const { return static_cast<T*>(first[Formula::inputs.size() + static_cast<std::size_t>(k)]); }
  /// Returns a function that gives the elements that output k has at a place.
  auto written(int k) const {
    return [from = output(k)](auto at) { return load_vector(static_cast<const T*>(from) + at.first, at.count); };
  }

  template <std::size_t count, class Count>
  static FOVEA_INLINE void add(V (&part)[count], const std::array<V, count>& more, Count elements) {
    for (std::size_t k = 0; k < count; ++k) part[k] += filled(more[k], elements, T(0));
  }

  template <std::size_t count, class F>
  FOVEA_INLINE std::array<T, count> block_sums(const F& f, std::int64_t begin, std::int64_t end) const {
    V part[4][count];
    for (auto& each : part) std::fill_n(each, count, V(T(0)));
    std::int64_t j = begin;
    for (; j + 4 * lanes <= end; j += 4 * lanes)
      for (int quarter = 0; quarter < 4; ++quarter)
        add(part[quarter], f(Place<WholeVector<T>>{j + quarter * lanes, {}}), WholeVector<T>{});
    for (; j + lanes <= end; j += lanes) add(part[0], f(Place<WholeVector<T>>{j, {}}), WholeVector<T>{});
    if (j < end) add(part[0], f(Place<int>{j, static_cast<int>(end - j)}), static_cast<int>(end - j));
    std::array<T, count> total;
    for (std::size_t k = 0; k < count; ++k)
      total[k] = horizontal_sum((part[0][k] + part[1][k]) + (part[2][k] + part[3][k]));
    return total;
  }

  template <class Body>
  FOVEA_INLINE void for_places(const Body& body) const {
    if constexpr (chunks > 0) {
      [&]<int... c>(std::integer_sequence<int, c...>) {
        (body(Place<WholeVector<T>, c>{c * lanes, {}}), ...);
        constexpr int last = (chunks - 1) * lanes;
        if (n - last == lanes)
          body(Place<WholeVector<T>, chunks - 1>{last, {}});
        else
          body(Place<int, chunks - 1>{last, static_cast<int>(n - last)});
      }
      (std::make_integer_sequence<int, chunks - 1>{});
    } else {
      for_vectors<T>(n, [&](std::int64_t j, auto count) { body(Place<decltype(count)>{j, count}); });
    }
  }
};

/// Returns the mask with its last dimension expanded to n and padded with 0 to whole vectors, so that every load from
/// it reads a whole vector.
Tensor padded_mask(const Tensor& allow, std::int64_t n);

/// The operands in the form that the loop over rows needs: the elements of each row are contiguous (inputs are copied
/// if necessary), and an operand with one value per row has rows of one element.
template <class Formula>
class RowTensors {
 public:
  static constexpr std::size_t operands = Formula::inputs.size() + Formula::outputs.size();

  explicit RowTensors(const RowOperands& given) {
    for (std::size_t k = 0; k < Formula::inputs.size(); ++k)
      tensors[k] =
          Formula::inputs[k] == formula::RowOperand::elements ? with_unit_rows(given.in[k]) : given.in[k].unsqueeze(-1);
    for (std::size_t k = 0; k < Formula::outputs.size(); ++k) {
      const Tensor& out = given.out[k];
      tensors[Formula::inputs.size() + k] =
          Formula::outputs[k] == formula::RowOperand::elements ? out : out.unsqueeze(-1);
    }
    masked = given.mask && given.mask->defined();
    tensors[operands] = masked ? padded_mask(*given.mask, given.n) : tensors[0];
    std::array<const Tensor*, operands + 1> addresses;
    for (std::size_t k = 0; k <= operands; ++k) addresses[k] = &tensors[k];
    loop = plan_rows<operands + 1>(given.rows, addresses);
    for (std::size_t k = 0; k <= operands; ++k) {
      const bool is_output = Formula::inputs.size() <= k && k < operands;
      base[k] = is_output ? tensors[k].mutable_address() : const_cast<std::byte*>(tensors[k].address());
      size[k] = static_cast<std::int64_t>(size_of(tensors[k].dtype()));
    }
  }

  /// Returns the row whose operands begin at these offsets.
  template <class T, bool is_masked, int chunks, class Offsets>
  FOVEA_INLINE Row<T, Formula, is_masked, chunks> row(const Offsets& offset, std::int64_t n, T* columns) const {
    Row<T, Formula, is_masked, chunks> row;
    for (std::size_t k = 0; k < operands; ++k) row.first[k] = base[k] + offset[k] * size[k];
    row.allow = is_masked ? reinterpret_cast<const std::uint8_t*>(base[operands]) + offset[operands] : nullptr;
    row.columns = columns;
    row.n = n;
    row.begin = offset[Formula::inputs.size()];
    return row;
  }

  std::array<Tensor, operands + 1> tensors;  ///< inputs, outputs and, last, the mask
  ElementLoop<operands + 1> loop;
  bool masked;

 private:
  std::array<std::byte*, operands + 1> base;
  std::array<std::int64_t, operands + 1> size;
};

template <class T, class Formula, bool masked, int chunks>
void run_each_row(const Formula& formula, const RowTensors<Formula>& tensors, std::int64_t n) {
  parallel_rows(tensors.loop, Formula::cost * n, [&](auto& offset) {
    auto row = tensors.template row<T, masked, chunks>(offset, n, nullptr);
    formula(row);
  });
}

/// Runs a formula that adds to column sums. The sums are computed in parts, whose number depends only on the number of
/// rows, not on the number of threads. Within a part, blocks of 128 rows are summed in T, and the blocks in f64.
template <class T, class Formula>
void run_rows_and_columns(const Formula& formula, const RowTensors<Formula>& tensors, std::int64_t n,
                          const Tensor& column_sums) {
  constexpr std::int64_t block_rows = 128;
  const std::int64_t rows = tensors.loop.rows(), width = Formula::column_sums * n;
  const std::int64_t parts = std::clamp<std::int64_t>(rows / 16, 1, 32);
  Tensor totals = Tensor::zeros({parts, width}, DType::f64), blocks = Tensor::zeros({parts, width}, dtype_of<T>);
  parallel_for(parts, 1 + element_grain / (Formula::cost * n * rows / parts + 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t part = begin; part < end; ++part) {
                   T* block = blocks.mutable_data<T>() + part * width;
                   double* total = totals.mutable_data<double>() + part * width;
                   const std::int64_t last = rows * (part + 1) / parts;
                   for (std::int64_t row = rows * part / parts; row < last; row += block_rows) {
                     tensors.loop.for_rows(row, std::min(row + block_rows, last), [&](auto& offset) {
                       auto one = tensors.template row<T, false, 0>(offset, n, block);
                       formula(one);
                     });
                     for (std::int64_t j = 0; j < width; ++j) total[j] += static_cast<double>(block[j]), block[j] = 0;
                   }
                 }
               });
  Tensor(column_sums).copy_from(sum(totals, {0}).reshape(column_sums.shape()));
}

/// Runs a formula over all rows. If the formula keeps values, rows of up to eight vectors keep them in registers.
template <class T, class Formula, bool masked>
void run_short_or_long(const Formula& formula, const RowTensors<Formula>& tensors, std::int64_t n) {
  if constexpr (Formula::keeps) {
    const std::int64_t vectors = (n + Vec<T>::lanes - 1) / Vec<T>::lanes;
    bool done = [&]<int... c>(std::integer_sequence<int, c...>) {
      return ((vectors == c + 1 && (run_each_row<T, Formula, masked, c + 1>(formula, tensors, n), true)) || ...);
    }
    (std::make_integer_sequence<int, 8>{});
    if (done) return;
  }
  run_each_row<T, Formula, masked, 0>(formula, tensors, n);
}

template <class Formula>
void run(const Formula& formula, const RowOperands& operands) {
  const RowTensors<Formula> tensors(operands);
  visit_real(Formula::name, tensors.tensors[0].dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (Formula::column_sums > 0)
      return run_rows_and_columns<T>(formula, tensors, operands.n, *operands.column_sums);
    if constexpr (Formula::takes_mask)
      if (tensors.masked) return run_short_or_long<T, Formula, true>(formula, tensors, operands.n);
    run_short_or_long<T, Formula, false>(formula, tensors, operands.n);
  });
}

/// Compiles the CPU's kernels of a list of row formulas, and puts them into the table before main() begins. The source
/// file of each operation with row formulas has one such object:
/// `const cpu::ProvideRows provide{formula::SoftmaxFormulas{}};`
template <class... F>
struct ProvideRows : Provide {
  explicit ProvideRows(FunctorList<F...>)
      : Provide(Device::cpu, [](Kernels& table) {
          provide_list(table, &Kernels::rows, FunctorList<F...>{},
                       [](const auto& f, const RowOperands& operands) { run(f, operands); });
        }) {}
};

}  // namespace fovea::cpu
