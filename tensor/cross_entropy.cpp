#include "tensor/cross_entropy.h"

#include "tensor/requirements.h"
#include "tensor/rows.h"

namespace fovea {

namespace {

void require_operands(const Tensor& logits, const Tensor& targets, double label_smoothing) {
  constexpr const char* what = "cross_entropy";
  require_rows(what, logits);
  require_real(what, logits);
  require(logits.rank() == 2 && targets.defined() && targets.rank() == 1 && targets.size(0) == logits.size(0),
          "cross_entropy: the logits are {}, the targets {}; they must be [N, V] and [N]", logits, targets);
  visit_index(what, targets.dtype(), [](auto) {});
  require(targets.device() == logits.device(),
          "cross_entropy: the targets are on {}, the logits on {}; move one of them", name(targets.device()),
          name(logits.device()));
  require(0 <= label_smoothing && label_smoothing <= 1, "cross_entropy: label smoothing is {}; it must be in [0, 1]",
          label_smoothing);
}

}  // namespace

CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets, double label_smoothing,
                                 std::int64_t ignored) {
  require_operands(logits, targets, label_smoothing);
  require_in_range("cross_entropy", "target", targets, logits.size(1), ignored);
  Tensor classes = targets.to(DType::i64);
  CrossEntropyResult out{Tensor::empty(targets.shape(), logits.dtype(), logits.device()),
                         Tensor::empty(targets.shape(), DType::f64, logits.device())};
  run_rows(formula::CrossEntropy{{}, label_smoothing, ignored},
           {targets.shape(), logits.size(1), {&logits, &classes}, {&out.loss, &out.log_sum_exp}});
  return out;
}

Tensor cross_entropy_backward(const Tensor& g, const Tensor& logits, const Tensor& targets, const Tensor& log_sum_exp,
                              double label_smoothing, std::int64_t ignored) {
  require_operands(logits, targets, label_smoothing);
  require(g.defined() && g.shape() == targets.shape() && g.dtype() == logits.dtype() && g.device() == logits.device(),
          "cross_entropy: the gradient is {}, it must be {} [{}] on {}", g, name(logits.dtype()), targets.size(0),
          name(logits.device()));
  require(log_sum_exp.defined() && log_sum_exp.shape() == targets.shape() && log_sum_exp.dtype() == DType::f64 &&
              log_sum_exp.device() == logits.device(),
          "cross_entropy: the saved log-sum-exp is {}, it must be f64 [{}] on {}", log_sum_exp, targets.size(0),
          name(logits.device()));
  Tensor out = Tensor::empty(logits.shape(), logits.dtype(), logits.device()), classes = targets.to(DType::i64);
  run_rows(formula::CrossEntropyBackward{{}, label_smoothing, ignored},
           {targets.shape(), logits.size(1), {&logits, &classes, &g, &log_sum_exp}, {&out}});
  return out;
}

}  // namespace fovea
