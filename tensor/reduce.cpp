#include "tensor/reduce.h"

#include "tensor/formula/reductions.h"
#include "tensor/requirements.h"

namespace fovea {

Tensor reduce_by(const FormulaKernels<ReduceKernel>& reduction, const void* formula, const char* what, const Tensor& x,
                 std::span<const int> dims, bool keep) {
  require(x.defined(), "{}: the tensor is undefined", what);
  require(is_float(x.dtype()) || reduction.cpu == formula_kernels<formula::Sum>(&Kernels::reductions).cpu,
          "{}: computes in f32 or f64, not {}; cast the tensor first", what, name(x.dtype()));
  if (x.dtype() == DType::bf16)
    return reduce_by(reduction, formula, what, x.to(DType::f32), dims, keep).to(DType::bf16);

  unsigned reduced = dims.empty() ? (1u << x.rank()) - 1 : 0;
  for (int dim : dims) {
    int d = x.shape().dimension(what, dim);
    require(!(reduced >> d & 1), "{}: dimension {} is named twice", what, dim);
    reduced |= 1u << d;
  }
  Shape kept = x.shape(), squeezed;
  for (int d = 0; d < x.rank(); ++d) {
    if (reduced >> d & 1)
      kept[d] = 1;
    else
      squeezed.push_back(kept[d]);
  }
  Tensor out = Tensor::empty(kept, is_float(x.dtype()) ? x.dtype() : DType::i64, x.device());
  reduction.on(x.device())(formula, x, out);
  return keep ? out : out.reshape(squeezed);
}

Tensor sum(const Tensor& x, std::initializer_list<int> dims, bool keep) {
  return reduce(formula::Sum{}, x, std::span(dims.begin(), dims.size()), keep);
}
Tensor maximum_over(const Tensor& x, std::initializer_list<int> dims, bool keep) {
  return reduce(formula::MaximumOver{}, x, std::span(dims.begin(), dims.size()), keep);
}

Tensor global_norm(std::span<const Tensor> tensors) {
  const Device device = tensors.empty() ? Device::cpu : tensors[0].device();
  for (const Tensor& x : tensors) {
    require(x.defined() && x.device() == device, "global_norm: {} on {} beside tensors on {}; move one of them", x,
            name(x.device()), name(device));
    require_real("global_norm", x);
  }
  Tensor norm = Tensor::empty({}, DType::f64, device);
  kernels(device).global_norm(tensors, norm);
  return norm;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  require(broadcasts_to(shape, x.shape()),
          "sum_to: {} cannot be summed down to {}: aligned at the end, sizes must be equal or 1", x.shape(), shape);
  const int added = x.rank() - shape.rank();
  std::array<int, Shape::max_rank> dims;
  std::size_t count = 0;
  for (int d = 0; d < x.rank(); ++d)
    if (d < added || (shape[d - added] == 1 && x.shape()[d] != 1)) dims[count++] = d;
  return reduce(formula::Sum{}, x, std::span(dims.data(), count), true).reshape(shape);
}

}  // namespace fovea
