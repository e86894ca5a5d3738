#include "autograd/operations/cross_entropy.h"

#include "autograd/map.h"
#include "autograd/operations.h"
#include "autograd/operations/gather.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/cpu/row.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/operands.h"
#include "tensor/requirements.h"

namespace fovea {

namespace {

const cpu::ProvideRows provide{formula::CrossEntropyFormulas{}};

}  // namespace

CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets, double label_smoothing,
                                 std::int64_t ignored) {
  check("cross_entropy", {{"the logits", logits, "N V"}, {"the targets", targets, "index N"}});
  require(0 <= label_smoothing && label_smoothing <= 1, "cross_entropy: label smoothing is {}; it must be in [0, 1]",
          label_smoothing);
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
  check("cross_entropy_backward", {{"the logits", logits, "N V"},
                                   {"the targets", targets, "index N"},
                                   {"the gradient", g, "N"},
                                   {"the log-sum-exp", log_sum_exp, "f64 N"}});
  const Tensor classes = targets.to(DType::i64);
  return apply_to_rows(formula::CrossEntropyBackward{{}, label_smoothing, ignored},
                       {&logits, &classes, &g, &log_sum_exp});
}

namespace {

/// Returns the smoothed target distribution [N, V] of the cross-entropy: in each row ε / V for every class, plus 1 − ε
/// for the target. Ignored rows are all 0.
Tensor target_distribution(const Tensor& targets, const Tensor& logits, const CrossEntropyOptions& options) {
  const std::int64_t V = logits.size(1);
  const double share = options.label_smoothing / static_cast<double>(V);
  auto scalar = [&](double x, DType dtype) { return constant(x, dtype, logits.device()); };
  const Tensor label = targets.reshape({-1, 1});  // [N, 1]
  const Tensor is_ignored = equal(label, scalar(static_cast<double>(options.ignored), label.dtype()));
  const Tensor class_of_row = where(is_ignored, scalar(0, label.dtype()), label);
  const Tensor one = Tensor::full(label.shape(), 1 - options.label_smoothing, logits.dtype(), logits.device());
  const Tensor smoothed = map(Affine{1, share}, scatter_add_last(one, class_of_row, V));
  return where(is_ignored, scalar(0, logits.dtype()), smoothed);
}

}  // namespace

Variable cross_entropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  auto result = cross_entropy(logits.value_for("cross_entropy"), targets, options.label_smoothing, options.ignored);
  if (!should_record({&logits})) return result.loss;
  struct Kept {
    Saved logits;
    SavedTensor targets;
    Tensor log_sum_exp;
    CrossEntropyOptions options;
  };
  auto fused = [](const Kept& kept, const Gradients& g, const Node& node) {
    return Gradients{cross_entropy_backward(g[0].value(), kept.logits.get(node).value(), kept.targets.get(node),
                                            kept.log_sum_exp, kept.options.label_smoothing, kept.options.ignored)};
  };
  auto composed = [](const Kept& kept, const Gradients& g, const Node& node) {
    const Variable& x = kept.logits.get(node);
    Variable target(target_distribution(kept.targets.get(node), x.value(), kept.options));
    Variable counted = sum(target, {-1}, true);  // 1 for each row, 0 for an ignored one
    return Gradients{map(GradientTimes{}, unsqueeze(g[0], 1), map(GradientTimes{}, counted, softmax(x)) - target)};
  };
  Kept kept{Saved(logits), SavedTensor(targets, "targets"), result.log_sum_exp, options};
  return record("cross_entropy", result.loss, {logits}, fused_rule(std::move(kept), fused, composed));
}

}  // namespace fovea
