#include <algorithm>

#include "tensor/cpu/map_loop.h"
#include "tensor/element_loop.h"

namespace fovea::cpu {
namespace {

/// Implements map_rows for up to `most` operands. If there are fewer, the remaining places hold the first result and
/// are not used.
template <int most, class T>
void map_rows_of(RowFunction<T> row, const void* f, Tensor* const* out, int results, const Tensor* const* in,
                 int inputs, std::int64_t cost) {
  std::array<const Tensor*, most> operands;
  operands.fill(out[0]);
  std::array<T*, most> first{};
  for (int k = 0; k < results; ++k) operands[k] = out[k], first[k] = out[k]->template mutable_data<T>();
  for (int k = 0; k < inputs; ++k)
    operands[results + k] = in[k], first[results + k] = const_cast<T*>(in[k]->template data<T>());
  auto loop = plan_loop<most>(out[0]->shape(), operands);
  std::array<std::int64_t, most> step;
  for (int k = 0; k < most; ++k) step[k] = loop.strides[k][-1];
  auto run = [&](auto& offset, std::int64_t count) {
    std::array<T*, most> at;
    for (int k = 0; k < results + inputs; ++k) at[k] = first[k] + offset[k];
    row(f, at.data(), step.data(), count);
  };
  for_runs<most>(loop, run, cost);
}

}  // namespace

template <class T>
void map_rows(RowFunction<T> row, const void* f, Tensor* const* out, int results, const Tensor* const* in, int inputs,
              std::int64_t cost) {
  const int operands = results + inputs;
  auto run = operands <= 2   ? map_rows_of<2, T>
             : operands <= 3 ? map_rows_of<3, T>
             : operands <= 4 ? map_rows_of<4, T>
             : operands <= 7 ? map_rows_of<7, T>
                             : map_rows_of<most_map_operands, T>;
  run(row, f, out, results, in, inputs, cost);
}

template void map_rows(RowFunction<float>, const void*, Tensor* const*, int, const Tensor* const*, int, std::int64_t);
template void map_rows(RowFunction<double>, const void*, Tensor* const*, int, const Tensor* const*, int, std::int64_t);

}  // namespace fovea::cpu
