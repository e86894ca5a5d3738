#include "tensor/map.h"

#include <typeindex>
#include <unordered_map>

#include "tensor/kernels.h"
#include "tensor/requirements.h"

namespace fovea {

void require_operands(const char* name, const Tensor& out, const Tensor* const* in, int n) {
  require_real(name, out);
  require_own_elements(name, out);
  for (int k = 0; k < n; ++k) {
    const Tensor& x = *in[k];
    require(x.defined(), "{}: operand {} is undefined", name, k + 1);
    require(x.dtype() == out.dtype() && x.device() == out.device(),
            "{}: the operands differ: {} on {} and {} on {}; cast or move one of them", name, out,
            fovea::name(out.device()), x, fovea::name(x.device()));
    require(broadcasts_to(x.shape(), out.shape()), "{}: an operand, {}, does not broadcast to the result, {}", name, x,
            out);
  }
}

bool overlaps_inputs(const Tensor& out, const Tensor* const* in, int n) {
  return std::any_of(in, in + n, [&](const Tensor* x) { return out.overlaps(*x); });
}

void run_map(const MapFormula& formula, const void* functor, const MapGroup& group) {
  require(formula.results + formula.inputs <= most_map_operands, "{}: {} operands; at most {}", formula.name,
          formula.results + formula.inputs, most_map_operands);
  if (group.out[0]->elements() > 0) kernels(group.out[0]->device()).map(formula, functor, {&group, 1});
}

void run_several(const MapFormula& formula, const void* functor, std::vector<MapGroup>& groups, int shared_inputs) {
  const int own_inputs = formula.inputs - shared_inputs;
  for (const MapGroup& group : groups) {
    const Tensor& first = *group.out[0];
    require_operands(formula.name, first, group.in, own_inputs);
    require_operands(formula.name, first, group.out, formula.results);
    for (int k = own_inputs; k < formula.inputs; ++k) {
      const Tensor& x = *group.in[k];
      require(x.defined() && x.elements() == 1 && x.dtype() == first.dtype() && x.device() == first.device(),
              "{}: operand {} is {}; it must be one number, {} on {}", formula.name, k + 1, x, name(first.dtype()),
              name(first.device()));
    }
    for (int k = 1; k < formula.results; ++k) {
      require_own_elements(formula.name, *group.out[k]);
      require(group.out[k]->shape() == first.shape(), "{}: the results are {} and {}; they must agree in shape",
              formula.name, first, *group.out[k]);
    }
    for (int k = 0; k < own_inputs; ++k)
      require(group.in[k]->shape() == first.shape(), "{}: operand {} is {}, the result {}; they must agree in shape",
              formula.name, k + 1, *group.in[k], first);
    require(first.device() == groups[0].out[0]->device(), "{}: results on two devices, {} and {}; move one of them",
            formula.name, name(groups[0].out[0]->device()), name(first.device()));
  }
  std::erase_if(groups, [](const MapGroup& group) { return group.out[0]->elements() == 0; });
  if (!groups.empty()) kernels(groups[0].out[0]->device()).map(formula, functor, groups);
}

namespace {

/// The listed formulas by the types of their functors.
std::unordered_map<std::type_index, const MapFormula*>& all_listed() {
  static std::unordered_map<std::type_index, const MapFormula*> all;
  return all;
}

}  // namespace

const MapFormula& listed_formula(const std::type_info& type) {
  const auto found = all_listed().find(type);
  require(found != all_listed().end(), "map: the formula {} is listed but not compiled", type.name());
  return *found->second;
}
void list_formula(const MapFormula& formula) { all_listed()[*formula.type] = &formula; }

Tensor empty_map_result(const char* name, const Tensor* const* in, int n) {
  Shape shape = in[0]->shape();
  for (int k = 1; k < n; ++k) shape = broadcast(name, shape, in[k]->shape());
  return Tensor::empty(shape, in[0]->dtype(), in[0]->device());
}

}  // namespace fovea
