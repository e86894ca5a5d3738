#include "autograd/operations/softmax.h"

#include "autograd/map.h"
#include "autograd/operations.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/cpu/row.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/operands.h"

namespace fovea {

namespace {

const cpu::ProvideRows provide{formula::SoftmaxFormulas{}};

void check_logits(const char* what, const Tensor& logits, const Tensor& allow) {
  check(what, {{"the logits", logits, "... n"}, {"the mask", allow, "?mask *"}});
  require(!allow.defined() || (allow.rank() > 0 && broadcast(what, allow.shape(), logits.shape()) == logits.shape()),
          "{}: the mask {} does not broadcast to the logits, {}", what, allow, logits);
}

}  // namespace

Tensor softmax(const Tensor& logits, const Tensor& allow) {
  check_logits("softmax", logits, allow);
  return apply_to_rows(formula::Softmax{}, {&logits}, &allow);
}

Tensor sparsemax(const Tensor& logits, const Tensor& allow) {
  check_logits("sparsemax", logits, allow);
  return apply_to_rows(formula::Sparsemax{}, {&logits}, &allow);
}

Tensor log_softmax(const Tensor& logits) {
  check_logits("log_softmax", logits, {});
  return apply_to_rows(formula::LogSoftmax{}, {&logits});
}

Tensor log_sum_exp(const Tensor& logits, const Tensor& allow) {
  check_logits("log_sum_exp", logits, allow);
  Tensor out = Tensor::empty(leading_shape(logits.shape()), logits.dtype(), logits.device());
  run_rows(formula::LogSumExp{}, {out.shape(), logits.size(-1), {&logits}, {&out}, &allow});
  return out;
}

Tensor softmax_backward(const Tensor& y, const Tensor& g) {
  check("softmax_backward", {{"the weights", y, "... n"}, {"the gradient", g, "... n"}});
  return apply_to_rows(formula::SoftmaxBackward{}, {&y, &g});
}

Variable softmax(const Variable& x, const Tensor& allow) {
  Tensor value = softmax(x.value_for("softmax"), allow);
  if (!should_record({&x})) return value;
  auto fused = [](const SavedTensor& result, const Gradients& g, const Node& node) {
    return Gradients{softmax_backward(result.get(node), g[0].value())};
  };
  auto composed = [](const SavedTensor& result, const Gradients& g, const Node& node) {
    const Variable y = node.output(0, result.get(node));
    const Tensor zero = constant_like(y, 0);
    const Tensor is_zero = equal(y.value(), zero);  // what arrives there does not matter, even NaN
    auto weighted = [&](const Variable& x) { return where(is_zero, zero, map(GradientTimes{}, x, y)); };
    return Gradients{weighted(g[0] - sum(weighted(g[0]), {-1}, true))};
  };
  return record("softmax", value, {x}, fused_rule(SavedTensor(value, "result"), fused, composed));
}

Variable log_softmax(const Variable& x) {
  Tensor value = log_softmax(x.value_for("log_softmax"));
  if (!should_record({&x})) return value;
  return record("log_softmax", value, {x}, [saved = SavedTensor(value, "result")](const Variable& g, const Node& node) {
    Variable y = node.output(0, saved.get(node));
    return g - map(GradientTimes{}, sum(g, {-1}, true), exp(y));
  });
}

}  // namespace fovea
