#include "tensor/softmax.h"

#include "tensor/requirements.h"
#include "tensor/rows.h"

namespace fovea {

namespace {

void require_logits(const char* what, const Tensor& logits, const Tensor& allow) {
  require_rows(what, logits);
  require_real(what, logits);
  if (!allow.defined()) return;
  require_rows(what, allow);
  require(allow.dtype() == DType::boolean || allow.dtype() == DType::u8, "{}: the mask is {}; it must be bool or u8",
          what, allow);
  require(allow.device() == logits.device(), "{}: the mask is on {}, the logits on {}; move one of them", what,
          name(allow.device()), name(logits.device()));
  require(broadcast(what, allow.shape(), logits.shape()) == logits.shape(),
          "{}: the mask {} does not broadcast to the logits, {}", what, allow, logits);
}

/// Applies a row formula to `y` and `g`, which have one shape, and returns a result of that shape.
template <class Formula>
Tensor backward(const Formula& formula, const Tensor& y, const Tensor& g) {
  require_rows(Formula::name, y);
  require_real(Formula::name, y);
  require_alike(Formula::name, y, g);
  Tensor out = Tensor::empty(y.shape(), y.dtype(), y.device());
  run_rows(formula, {leading_shape(y.shape()), y.size(-1), {&y, &g}, {&out}});
  return out;
}

}  // namespace

Tensor softmax(const Tensor& logits, const Tensor& allow) {
  require_logits("softmax", logits, allow);
  Tensor out = Tensor::empty(logits.shape(), logits.dtype(), logits.device());
  run_rows(formula::Softmax{}, {leading_shape(logits.shape()), logits.size(-1), {&logits}, {&out}, &allow});
  return out;
}

Tensor log_softmax(const Tensor& logits) {
  require_logits("log_softmax", logits, {});
  Tensor out = Tensor::empty(logits.shape(), logits.dtype(), logits.device());
  run_rows(formula::LogSoftmax{}, {leading_shape(logits.shape()), logits.size(-1), {&logits}, {&out}});
  return out;
}

Tensor log_sum_exp(const Tensor& logits, const Tensor& allow) {
  require_logits("log_sum_exp", logits, allow);
  Tensor out = Tensor::empty(leading_shape(logits.shape()), logits.dtype(), logits.device());
  run_rows(formula::LogSumExp{}, {out.shape(), logits.size(-1), {&logits}, {&out}, &allow});
  return out;
}

Tensor sparsemax(const Tensor& logits, const Tensor& allow) {
  require_logits("sparsemax", logits, allow);
  Tensor out = Tensor::empty(logits.shape(), logits.dtype(), logits.device());
  run_rows(formula::Sparsemax{}, {leading_shape(logits.shape()), logits.size(-1), {&logits}, {&out}, &allow});
  return out;
}

Tensor softmax_backward(const Tensor& y, const Tensor& g) { return backward(formula::SoftmaxBackward{}, y, g); }
Tensor log_softmax_backward(const Tensor& y, const Tensor& g) { return backward(formula::LogSoftmaxBackward{}, y, g); }

}  // namespace fovea
