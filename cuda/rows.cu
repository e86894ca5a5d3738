// The GPU's kernels for the row formulas of all operations.
//
// Tried, and did not pay: joining the parts of column sums by a general sum and a cast, which are 22 launches more in a
// step of the preset mini (`benchmark step --launches`).
#include "autograd/operations/row_formulas.h"
#include "cuda/row.h"
#include "tensor/provide.h"

namespace fovea::cuda {

namespace {

/// Returns a view of x with one element per row, the first. An operand with one value per row (`has_elements` is false)
/// has no dimension of elements, and is returned as it is.
Tensor row_starts(const Tensor& x, bool has_elements) {
  if (!has_elements) return x;
  return x.as_strided(leading_shape(x.shape()), leading_shape(x.strides()));
}

/// Whether the whole Packs of `width` elements of each row are contiguous and aligned.
bool is_packed(const Tensor& x, int width) {
  const std::size_t bytes = static_cast<std::size_t>(width) * size_of(x.dtype());
  bool packed = x.strides()[-1] == 1 && reinterpret_cast<std::uintptr_t>(x.address()) % bytes == 0;
  for (int d = 0; d < x.rank() - 1; ++d) packed = packed && (x.size(d) == 1 || x.strides()[d] % width == 0);
  return packed;
}

/// The operands as kernels take them, and the loop over the rows.
template <class Formula>
struct RowArguments {
  static constexpr int inputs = static_cast<int>(Formula::inputs.size());
  static constexpr int operands = inputs + static_cast<int>(Formula::outputs.size());
  RowPointers<operands> all{};
  std::int64_t bytes = 0;                   ///< that the operands have in memory
  std::array<Tensor, operands + 1> starts;  ///< the first elements of the rows of each operand and, last, of the mask

  /// The width of Packs is that of the type T that the formula computes in.
  RowArguments(const RowOperands& given, int width) {
    for (int k = 0; k < operands; ++k) {
      const Tensor& x = k < inputs ? given.in[k] : given.out[k - inputs];
      const bool has_elements =
          (k < inputs ? Formula::inputs[k] : Formula::outputs[k - inputs]) == formula::RowOperand::elements;
      bytes += traffic(x);
      starts[k] = row_starts(x, has_elements);
      all.first[k] = k < inputs ? const_cast<std::byte*>(x.address()) : x.mutable_address();
      all.step[k] = has_elements && x.size(-1) > 1 ? x.strides()[-1] : 0;
      all.packed |= static_cast<unsigned>(has_elements && is_packed(x, width)) << k;
    }
    starts[operands] = starts[0];
    if (given.mask && given.mask->defined()) {
      bytes += traffic(*given.mask);
      starts[operands] = row_starts(*given.mask, true);
      all.allow = reinterpret_cast<const std::uint8_t*>(given.mask->address());
      all.allow_step = given.mask->size(-1) > 1 ? given.mask->strides()[-1] : 0;
    }
    all.n = given.n;
  }

  DeviceLoop<operands + 1> rows(const Shape& shape) const {
    std::array<const Tensor*, operands + 1> addresses;
    for (int k = 0; k <= operands; ++k) addresses[k] = &starts[k];
    return DeviceLoop<operands + 1>(plan_loop<operands + 1>(shape, addresses));
  }
};

constexpr int joined_columns = warp_lanes, joined_groups = block_threads / joined_columns;

/// out[c] = Σ_p parts[p, c]: each block adds up 32 columns, each warp every eighth part of them, always in one order.
template <class T>
__global__ void join_columns(const double* parts, std::int64_t count, std::int64_t columns, T* out) {
  __shared__ SharedArray<double, block_threads> sums;
  const int lane = static_cast<int>(threadIdx.x) % joined_columns,
            group = static_cast<int>(threadIdx.x) / joined_columns;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * joined_columns + lane;
  double total = 0;
  if (column < columns)
    for (std::int64_t part = group; part < count; part += joined_groups) total += parts[part * columns + column];
  sums[group * joined_columns + lane] = total;
  __syncthreads();
  if (group > 0 || column >= columns) return;
  for (int other = 1; other < joined_groups; ++other) total += sums[other * joined_columns + lane];
  out[column] = static_cast<T>(total);
}

/// Adds up the parts of the column sums, f64 [count, columns], into `out`, which has as many elements, contiguous.
template <class T>
void join(const Tensor& parts, Tensor out) {
  const std::int64_t columns = parts.size(1);
  launch("join_columns", traffic(parts) + traffic(out), join_columns<T>,
         {static_cast<unsigned>((columns + joined_columns - 1) / joined_columns)}, parts.data<double>(), parts.size(0),
         columns, out.mutable_data<T>());
}

/// Up to so many parts of column sums are joined by the last block of the kernel that computed them. More of them take
/// a block longer than many blocks and their launch.
constexpr unsigned most_joined_at_once = 16;

/// Runs the formula on all rows, spread as Spread says. Each block computes one part of the column sums; the number of
/// blocks does not depend on the device, so that results repeat everywhere.
template <class T, class Spread, class Formula>
void run_spread(const Formula& formula, const RowOperands& given) {
  const RowArguments<Formula> arguments(given, Spread::width);
  const auto rows = arguments.rows(given.rows);
  constexpr std::int64_t most_blocks = Formula::column_sums > 0 ? 256 : 1 << 16;
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>((rows.count + Spread::groups - 1) / Spread::groups, 1, most_blocks));
  Tensor columns;
  if (Formula::column_sums > 0) {
    columns = Tensor::empty({blocks, Formula::column_sums * given.n}, DType::f64, Device::cuda);
    if (Spread::items == 0) columns.fill(0);  // rows that are not held are added to them one by one
  }
  const bool joins = columns.defined() && blocks <= most_joined_at_once;
  launch(Formula::name, arguments.bytes, run_rows_kernel<T, Formula, Spread>, {blocks}, formula, rows, arguments.all,
         columns.defined() ? columns.mutable_data<double>() : nullptr,
         joins ? given.column_sums->mutable_data<T>() : nullptr);
  if (columns.defined() && !joins) join<T>(columns, *given.column_sums);
}

template <class Formula>
void run(const Formula& formula, const RowOperands& given) {
  visit_real(Formula::name, given.in[0].dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr int width = widest_pack<T>, items = 4 * width;
    using Shortest = RowSpread<warp_lanes, 2, 1>;
    using Short = RowSpread<warp_lanes, items, width>;
    using Held = RowSpread<block_threads, items, width>;
    using Long = RowSpread<block_threads, 0, 1>;
    if (given.n <= Shortest::longest) return run_spread<T, Shortest>(formula, given);
    if (given.n <= Short::longest) return run_spread<T, Short>(formula, given);
    if (given.n <= Held::longest) return run_spread<T, Held>(formula, given);
    run_spread<T, Long>(formula, given);
  });
}

const Provide provide(Device::cuda, [](Kernels& table) {
  const auto run_formula = [](const auto& f, const RowOperands& operands) { run(f, operands); };
  std::apply([&](auto... list) { (provide_list(table, &Kernels::rows, list, run_formula), ...); },
             formula::RowFormulas{});
});

}  // namespace

}  // namespace fovea::cuda
