#include "tensor/softmax.h"

#include "tensor/kernels.h"
#include "tensor/requirements.h"

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

void require_gradient(const char* what, const Tensor& y, const Tensor& g) {
  require_rows(what, y);
  require_real(what, y);
  require_alike(what, y, g);
}

}  // namespace

Tensor softmax(const Tensor& logits, const Tensor& allow) {
  require_logits("softmax", logits, allow);
  Tensor out = Tensor::empty(logits.shape(), logits.dtype(), logits.device());
  kernels(logits.device()).softmax(logits, allow, out);
  return out;
}

Tensor softmax_backward(const Tensor& y, const Tensor& g) {
  require_gradient("softmax_backward", y, g);
  Tensor out = Tensor::empty(y.shape(), y.dtype(), y.device());
  kernels(y.device()).softmax_backward(y, g, out);
  return out;
}

Tensor log_softmax(const Tensor& logits) {
  require_logits("log_softmax", logits, {});
  Tensor out = Tensor::empty(logits.shape(), logits.dtype(), logits.device());
  kernels(logits.device()).log_softmax(logits, out);
  return out;
}

Tensor log_softmax_backward(const Tensor& y, const Tensor& g) {
  require_gradient("log_softmax_backward", y, g);
  Tensor out = Tensor::empty(y.shape(), y.dtype(), y.device());
  kernels(y.device()).log_softmax_backward(y, g, out);
  return out;
}

Tensor log_sum_exp(const Tensor& logits, const Tensor& allow) {
  require_logits("log_sum_exp", logits, allow);
  Tensor out = Tensor::empty(leading_shape(logits.shape()), logits.dtype(), logits.device());
  kernels(logits.device()).log_sum_exp(logits, allow, out);
  return out;
}

}  // namespace fovea
