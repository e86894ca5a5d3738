#include "tensor/map.h"

#include "tensor/kernels.h"
#include "tensor/requirements.h"

namespace fovea {

void require_operands(const char* name, const Tensor& out, const Tensor* const* in, int n) {
  require_real(name, out);
  require_own_elements(name, out);
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

void run_listed_map(int place, int order, const void* functor, Tensor* out, MapOperands in) {
  kernels(out->device()).map(place, order)(functor, &out, in);
}

void run_several(int place, const char* name, int results, const void* formula, std::vector<MapGroup>& groups) {
  for (const MapGroup& group : groups)
    for (int k = 0; k < results; ++k) require_own_elements(name, *group.out[k]);
  std::erase_if(groups, [](const MapGroup& group) { return group.out[0]->elements() == 0; });
  if (groups.empty()) return;
  kernels(groups[0].out[0]->device()).several[static_cast<std::size_t>(place)](formula, groups);
}

void run_unlisted_map(const MapFormula& formula, const void* functor, Tensor* const* out, MapOperands in) {
  kernels(out[0]->device()).map_unlisted(formula, functor, out, in);
}

Tensor empty_map_result(const char* name, const Tensor* const* in, int n) {
  Shape shape = in[0]->shape();
  for (int k = 1; k < n; ++k) shape = broadcast(name, shape, in[k]->shape());
  return Tensor::empty(shape, in[0]->dtype(), in[0]->device());
}

}  // namespace fovea
