#include "tensor/comparison.h"

#include "tensor/kernels.h"

namespace fovea {

namespace {

void require_same_type(const char* what, const Tensor& a, const Tensor& b) {
  require(a.defined() && b.defined() && a.dtype() == b.dtype() && a.device() == b.device(),
          "{}: the operands differ: {} on {} and {} on {}; cast or move one of them", what, a, name(a.device()), b,
          name(b.device()));
}

Tensor compare(const char* what, Comparison comparison, const Tensor& a, const Tensor& b) {
  require_same_type(what, a, b);
  Tensor out = Tensor::empty(broadcast(what, a.shape(), b.shape()), DType::boolean, a.device());
  if (out.elements() > 0) kernels(a.device()).compare(comparison, a, b, out);
  return out;
}

Tensor combine(const char* what, Logic logic, const Tensor& a, const Tensor& b) {
  require(a.dtype() == DType::boolean && b.dtype() == DType::boolean,
          "{}: the operands must be bool, they are {} and {}", what, a, b);
  require_same_type(what, a, b);
  Tensor out = Tensor::empty(broadcast(what, a.shape(), b.shape()), DType::boolean, a.device());
  if (out.elements() > 0) kernels(a.device()).logic(logic, a, b, out);
  return out;
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require_same_type("where", a, b);
  require(condition.defined() && (condition.dtype() == DType::boolean || condition.dtype() == DType::u8) &&
              condition.device() == a.device(),
          "where: the condition is {}; it must be bool or u8, on {}", condition, name(a.device()));
  Tensor out = Tensor::empty(broadcast("where", condition.shape(), broadcast("where", a.shape(), b.shape())), a.dtype(),
                             a.device());
  if (out.elements() > 0) kernels(a.device()).where(condition, a, b, out);
  return out;
}

Tensor less(const Tensor& a, const Tensor& b) { return compare("less", Comparison::less, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return compare("less_equal", Comparison::less_equal, a, b); }
Tensor equal(const Tensor& a, const Tensor& b) { return compare("equal", Comparison::equal, a, b); }

Tensor logical_and(const Tensor& a, const Tensor& b) { return combine("logical_and", Logic::both, a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return combine("logical_or", Logic::either, a, b); }
Tensor logical_not(const Tensor& a) { return combine("logical_not", Logic::negation, a, a); }

}  // namespace fovea
