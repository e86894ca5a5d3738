#include <algorithm>

#include "tensor/cpu/map_loop.h"
#include "tensor/element_loop.h"

namespace fovea::cpu {
namespace {

/// map_rows for up to `inputs` inputs; those beyond n stand at the output and are not read.
template <int inputs, class T>
void map_rows_of(RowFunction<T> row, const void* f, Tensor& out, const Tensor* const* in, int n) {
  std::array<const Tensor*, inputs + 1> operands;
  operands.fill(&out);
  std::array<const T*, inputs> first{};
  for (int k = 0; k < n; ++k) operands[k + 1] = in[k], first[k] = in[k]->template data<T>();
  T* to = out.mutable_data<T>();
  auto loop = plan_loop<inputs + 1>(out.shape(), operands);
  std::array<std::int64_t, inputs> step;
  for (int k = 0; k < inputs; ++k) step[k] = loop.strides[k + 1][-1];
  for_runs<inputs + 1>(loop, [&](auto& offset, std::int64_t count) {
    std::array<const T*, inputs> from;
    for (int k = 0; k < n; ++k) from[k] = first[k] + offset[k + 1];
    row(f, to + offset[0], loop.strides[0][-1], from.data(), step.data(), count);
  });
}

}  // namespace

template <class T>
void map_rows(RowFunction<T> row, const void* f, Tensor& out, const Tensor* const* in, int n) {
  if (n == 1) return map_rows_of<1>(row, f, out, in, n);
  if (n == 2) return map_rows_of<2>(row, f, out, in, n);
  if (n == 3) return map_rows_of<3>(row, f, out, in, n);
  if (n <= 5) return map_rows_of<5>(row, f, out, in, n);
  if (n <= 8) return map_rows_of<8>(row, f, out, in, n);
  return map_rows_of<most_map_inputs>(row, f, out, in, n);
}

template void map_rows(RowFunction<float>, const void*, Tensor&, const Tensor* const*, int);
template void map_rows(RowFunction<double>, const void*, Tensor&, const Tensor* const*, int);

}  // namespace fovea::cpu
