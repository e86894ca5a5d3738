// The GPU's kernels for the row formulas (tensor/formula/row_formulas.h).
#include "cuda/row.h"
#include "tensor/provide.h"
#include "tensor/reduce.h"

namespace fovea::cuda {

namespace {

/// Returns a view of x with one element per row, the first. An operand with one value per row (`has_elements` is false)
/// has no dimension of elements, and is returned as it is.
Tensor row_starts(const Tensor& x, bool has_elements) {
  if (!has_elements) return x;
  return x.as_strided(leading_shape(x.shape()), leading_shape(x.strides()));
}

template <class Formula>
void run(const Formula& formula, const RowOperands& given) {
  constexpr int inputs = static_cast<int>(Formula::inputs.size());
  constexpr int operands = inputs + static_cast<int>(Formula::outputs.size());
  std::array<Tensor, operands + 1> starts;
  std::array<const Tensor*, operands + 1> addresses;
  RowPointers<operands> all{};
  for (int k = 0; k < operands; ++k) {
    const Tensor& x = k < inputs ? given.in[k] : given.out[k - inputs];
    const bool has_elements =
        (k < inputs ? Formula::inputs[k] : Formula::outputs[k - inputs]) == formula::RowOperand::elements;
    starts[k] = row_starts(x, has_elements);
    all.first[k] = k < inputs ? const_cast<std::byte*>(x.address()) : x.mutable_address();
    all.step[k] = has_elements && x.size(-1) > 1 ? x.strides()[-1] : 0;
  }
  starts[operands] = starts[0];
  if (given.mask && given.mask->defined()) {
    starts[operands] = row_starts(*given.mask, true);
    all.allow = reinterpret_cast<const std::uint8_t*>(given.mask->address());
    all.allow_step = given.mask->size(-1) > 1 ? given.mask->strides()[-1] : 0;
  }
  all.n = given.n;
  for (int k = 0; k <= operands; ++k) addresses[k] = &starts[k];
  DeviceLoop<operands + 1> rows(plan_loop<operands + 1>(given.rows, addresses));

  // Each block computes one part of the column sums. Their number is the same on every device, so that results repeat
  // everywhere.
  constexpr std::int64_t most_parts = 128;
  const auto blocks =
      static_cast<unsigned>(std::clamp<std::int64_t>(rows.count, 1, Formula::column_sums > 0 ? most_parts : 1 << 16));
  Tensor columns;
  if (Formula::column_sums > 0)
    columns = Tensor::zeros({blocks, Formula::column_sums * given.n}, DType::f64, Device::cuda);
  visit_real(Formula::name, given.in[0].dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch(Formula::name, run_rows_kernel<T, Formula>, {blocks}, formula, rows, all,
           columns.defined() ? columns.mutable_data<double>() : nullptr);
  });
  if (columns.defined()) Tensor(*given.column_sums).copy_from(sum(columns, {0}).reshape(given.column_sums->shape()));
}

const Provide provide(Device::cuda, [](Kernels& table) {
  provide_list(table.rows, formula::RowFormulas{},
               [](const auto& f, const RowOperands& operands) { run(f, operands); });
});

}  // namespace

}  // namespace fovea::cuda
