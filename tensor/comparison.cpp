#include "tensor/comparison.h"

#include "tensor/formula/truths.h"
#include "tensor/kernels.h"
#include "tensor/operands.h"

namespace fovea {

namespace {

template <class F>
Tensor run(const F& f, const Shape& shape, DType dtype, const std::array<const Tensor*, F::inputs>& in) {
  Tensor out = Tensor::empty(shape, dtype, in[0]->device());
  Tensor* const outputs[] = {&out};
  if (out.elements() > 0) formula_kernels<F>(&Kernels::truths).on(out.device())(&f, outputs, in.data());
  return out;
}

template <class F>
Tensor compare(const F& f, const Tensor& a, const Tensor& b) {
  check(F::name, {{"a", a, "any *"}, {"b", b, "*"}});
  return run(f, broadcast(F::name, a.shape(), b.shape()), DType::boolean, {&a, &b});
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  check("where", {{"a", a, "any *"}, {"b", b, "*"}, {"the condition", condition, "mask *"}});
  const Shape shape = broadcast("where", condition.shape(), broadcast("where", a.shape(), b.shape()));
  return run(formula::Choice{}, shape, a.dtype(), {&condition, &a, &b});
}

Tensor less(const Tensor& a, const Tensor& b) { return compare(formula::Less{}, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return compare(formula::LessEqual{}, a, b); }
Tensor equal(const Tensor& a, const Tensor& b) { return compare(formula::Equal{}, a, b); }

/// Logic, where all operands are bool.
template <class F>
Tensor combine(const F& f, const Tensor& a, const Tensor& b) {
  check(F::name, {{"a", a, "bool *"}, {"b", b, "bool *"}});
  return compare(f, a, b);
}

Tensor logical_and(const Tensor& a, const Tensor& b) { return combine(formula::Both{}, a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return combine(formula::Either{}, a, b); }
Tensor logical_not(const Tensor& a) {
  check("logical_not", {{"a", a, "bool *"}});
  return run(formula::Negation{}, a.shape(), DType::boolean, {&a});
}

}  // namespace fovea
