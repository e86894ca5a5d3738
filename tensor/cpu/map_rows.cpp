#include <algorithm>

#include "tensor/element_loop.h"
#include "tensor/map.h"

namespace fovea {
namespace {

/// map_rows for up to `inputs` inputs; those beyond n stand at the output and are not read.
template <int inputs, class T>
void map_rows_of(RowFunction<T> row, const void* f, Tensor& out, const Tensor* const* in, int n) {
  std::array<const Tensor*, inputs + 1> operands;
  operands.fill(&out);
  std::array<const T*, inputs> first{};
  for (int k = 0; k < n; ++k) operands[k + 1] = in[k], first[k] = in[k]->template data<T>();
  T* to = out.data<T>();
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

void require_operands(const char* name, const Tensor& out, const Tensor* const* in, int n) {
  auto broadcasts = [&](const Shape& shape) {
    const int more = out.rank() - shape.rank();
    bool does = more >= 0;
    for (int d = 0; does && d < shape.rank(); ++d) does = shape[d] == 1 || shape[d] == out.shape()[d + more];
    return does;
  };
  for (int k = 0; k < n; ++k) {
    const Tensor& x = *in[k];
    require(x.defined() && x.dtype() == out.dtype() && x.device() == out.device(),
            "{}: the operands differ: {} on {} and {} on {}; cast or move one of them", name, out,
            fovea::name(out.device()), x, fovea::name(x.device()));
    require(broadcasts(x.shape()), "{}: an operand, {}, does not broadcast to the result, {}", name, x, out);
  }
}

bool overlaps_inputs(const Tensor& out, const Tensor* const* in, int n) {
  return std::any_of(in, in + n, [&](const Tensor* x) { return out.overlaps(*x); });
}

Tensor empty_map_result(const char* name, const Tensor* const* in, int n) {
  Shape shape = in[0]->shape();
  for (int k = 1; k < n; ++k) shape = broadcast(name, shape, in[k]->shape());
  return Tensor::empty(shape, in[0]->dtype(), in[0]->device());
}

}  // namespace fovea
