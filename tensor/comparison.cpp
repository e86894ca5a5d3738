#include "tensor/comparison.h"

#include "tensor/formula/truths.h"
#include "tensor/kernels.h"

namespace fovea {

namespace {

void require_same_type(const char* what, const Tensor& a, const Tensor& b) {
  require(a.defined() && b.defined() && a.dtype() == b.dtype() && a.device() == b.device(),
          "{}: the operands differ: {} on {} and {} on {}; cast or move one of them", what, a, name(a.device()), b,
          name(b.device()));
}

void require_truths(const char* what, const Tensor& a, const Tensor& b) {
  require(a.dtype() == DType::boolean && b.dtype() == DType::boolean,
          "{}: the operands must be bool, they are {} and {}", what, a, b);
}

template <class F>
Tensor run(const F& f, const Shape& shape, DType dtype, const std::array<const Tensor*, F::inputs>& in) {
  Tensor out = Tensor::empty(shape, dtype, in[0]->device());
  Tensor* const outputs[] = {&out};
  constexpr int place = place_of<F>(formula::TruthFormulas{});
  if (out.elements() > 0) kernels(out.device()).truths[place](&f, outputs, in.data());
  return out;
}

template <class F>
Tensor compare(const F& f, const Tensor& a, const Tensor& b) {
  require_same_type(F::name, a, b);
  return run(f, broadcast(F::name, a.shape(), b.shape()), DType::boolean, {&a, &b});
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require_same_type("where", a, b);
  require(condition.defined() && (condition.dtype() == DType::boolean || condition.dtype() == DType::u8) &&
              condition.device() == a.device(),
          "where: the condition is {}; it must be bool or u8, on {}", condition, name(a.device()));
  const Shape shape = broadcast("where", condition.shape(), broadcast("where", a.shape(), b.shape()));
  return run(formula::Choice{}, shape, a.dtype(), {&condition, &a, &b});
}

Tensor less(const Tensor& a, const Tensor& b) { return compare(formula::Less{}, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return compare(formula::LessEqual{}, a, b); }
Tensor equal(const Tensor& a, const Tensor& b) { return compare(formula::Equal{}, a, b); }

Tensor logical_and(const Tensor& a, const Tensor& b) {
  require_truths("logical_and", a, b);
  return compare(formula::Both{}, a, b);
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  require_truths("logical_or", a, b);
  return compare(formula::Either{}, a, b);
}
Tensor logical_not(const Tensor& a) {
  require(a.defined() && a.dtype() == DType::boolean, "logical_not: the operand must be bool, it is {}", a);
  return run(formula::Negation{}, a.shape(), DType::boolean, {&a});
}

}  // namespace fovea
