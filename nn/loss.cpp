#include "nn/loss.h"

#include <algorithm>

#include "autograd/node.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/cross_entropy.h"
#include "tensor/gather.h"
#include "tensor/gemm.h"
#include "tensor/reduce.h"

namespace fovea {

Variable cross_entropy_loss(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options,
                            Total total) {
  Shape expected = targets.shape();
  require(logits.rank() >= 1, "cross_entropy_loss: the logits are {}; expected [..., V]", logits);
  expected.push_back(logits.size(-1));
  require(logits.shape() == expected,
          "cross_entropy_loss: the logits are {}, the targets {}; targets must have the logits' shape without its last "
          "size",
          logits, targets);
  const Tensor classes = targets.to(logits.device()).reshape({-1});
  Variable losses = sum(cross_entropy(reshape(logits, {-1, logits.size(-1)}), classes, options));
  if (total == Total::sum) return losses;
  const Tensor ignored = constant_like(targets, static_cast<double>(options.ignored));
  const Tensor count = sum(logical_not(equal(targets, ignored)).to(losses.dtype()));
  require(targets.device() != Device::cpu || count.item() > 0,
          "cross_entropy_loss: all {} targets are {}, the ignored one; a mean needs at least one other target",
          targets.elements(), options.ignored);
  return losses / Variable(count.to(losses.device()));
}

namespace {

/// Returns the indices of the rows whose target is not ignored, i64 [N], or an undefined tensor if the targets are on a
/// GPU: the host would have to wait for their number. All rows are computed then, and the ignored ones have no loss.
Tensor counted_rows(const Tensor& targets, std::int64_t ignored) {
  if (targets.device() != Device::cpu) return {};
  std::vector<std::int64_t> values = targets.to_vector<std::int64_t>(), rows;
  for (std::size_t row = 0; row < values.size(); ++row)
    if (values[row] != ignored) rows.push_back(static_cast<std::int64_t>(row));
  return Tensor::from(rows, {std::ssize(rows)});
}

/// The sums of the losses so far, f64 scalars, undefined before the first block, and the gradients with respect to
/// states, weight and bias. A gradient that is not needed is undefined; the other gradients start at zero.
struct LossAndGradients {
  Tensor loss, unsmoothed;
  Tensor states, weight, bias;
};

/// total += the sum of x, in f64. An undefined total counts as 0.
void add_sum(Tensor& total, const Tensor& x) {
  Tensor more = sum(x.to(DType::f64));
  if (total.defined())
    map_into(total, Add{}, total, more);
  else
    total = more;
}

/// Adds −log p of the targets, which are not smoothed, for rows of these logits.
void add_unsmoothed(Tensor& total, const Tensor& logits, const Tensor& log_sum_exp, const Tensor& targets,
                    std::int64_t ignored) {
  const Tensor no_loss = equal(targets, constant_like(targets, static_cast<double>(ignored)));
  const Tensor place = where(no_loss, constant_like(targets, 0), targets).reshape({-1, 1});
  const Tensor of_target = gather_last(logits, place).reshape({-1}).to(DType::f64);
  add_sum(total, where(no_loss, constant(0, DType::f64, logits.device()), map(Subtract{}, log_sum_exp, of_target)));
}

/// Adds the loss of one block of N rows to `total`, together with its gradients with respect to weight and bias. Writes
/// the gradient with respect to the block's states to `states_gradient`, unless that is undefined. states [N, n],
/// weight [n, V], bias [V] or undefined, targets [N]. `reports`: the loss without smoothing is wanted.
void add_block(LossAndGradients& total, const Tensor& states, const Tensor& weight, const Tensor& bias,
               const Tensor& targets, const CrossEntropyOptions& options, bool reports, Tensor states_gradient) {
  const Tensor logits = bias.defined() ? matmul_plus_bias(states, weight, bias) : matmul(states, weight);
  CrossEntropyResult result = cross_entropy(logits, targets, options.label_smoothing, options.ignored);
  add_sum(total.loss, result.loss);
  if (options.label_smoothing > 0 && reports)
    add_unsmoothed(total.unsmoothed, logits, result.log_sum_exp, targets, options.ignored);
  if (!states_gradient.defined() && !total.weight.defined() && !total.bias.defined()) return;
  const Tensor ones = constant_like(states, 1).expand({states.size(0)});
  Tensor g =
      cross_entropy_backward(ones, logits, targets, result.log_sum_exp, options.label_smoothing, options.ignored);
  if (states_gradient.defined()) gemm(g, weight.transpose(0, 1), states_gradient);
  if (total.weight.defined()) gemm(states.transpose(0, 1), g, total.weight, 1, 1);
  if (total.bias.defined()) map_into(total.bias, Add{}, total.bias, sum(g, {0}));
}

/// Computes the loss of states [rows, n] and its gradients, block by block. targets [rows], on the states' device.
/// `counted` has the indices of the rows that have a loss; undefined: all rows.
LossAndGradients project(const Variable& states, const Variable& weight, const Variable& bias, const Tensor& targets,
                         const Tensor& counted, const CrossEntropyOptions& options, bool reports) {
  // 8 MB of f32 on the CPU; 128 MB on a GPU, where each block takes a dozen launches
  const std::int64_t block_logits = std::int64_t{1} << (states.device() == Device::cpu ? 21 : 25);
  const bool records = should_record({&states, &weight, &bias});
  auto zeros_for = [&](const Variable& x) {
    Tensor zeros;
    if (records && x.defined() && x.requires_grad()) (zeros = Tensor::empty_like(x.value())).fill(0);
    return zeros;
  };
  LossAndGradients total{{}, {}, zeros_for(states), zeros_for(weight), zeros_for(bias)};
  const Tensor rows = counted.defined() ? gather_rows(states.value(), counted) : states.value();
  const Tensor classes =
      counted.defined() ? gather_rows(targets.reshape({-1, 1}), counted).reshape({rows.size(0)}) : targets;
  Tensor gradient = !total.states.defined() ? Tensor() : counted.defined() ? Tensor::empty_like(rows) : total.states;
  const std::int64_t N = rows.size(0), V = weight.size(1);
  const std::int64_t block = std::max<std::int64_t>(block_logits / V / 64 * 64, 64);
  for (std::int64_t begin = 0; begin < N; begin += block) {
    const std::int64_t end = std::min(begin + block, N);
    add_block(total, rows.slice(0, begin, end), weight.value(), bias.defined() ? bias.value() : Tensor(),
              classes.slice(0, begin, end), options, reports,
              gradient.defined() ? gradient.slice(0, begin, end) : Tensor());
  }
  if (gradient.defined() && counted.defined()) scatter_add_rows(total.states, counted, gradient);
  if (!total.loss.defined()) total.loss = Tensor::zeros({}, DType::f64, states.device());  // no row has a loss
  if (options.label_smoothing == 0 || !total.unsmoothed.defined()) total.unsmoothed = total.loss;
  return total;
}

}  // namespace

Variable projected_cross_entropy(const Variable& states, const Variable& weight, const Variable& bias,
                                 const Tensor& targets, const CrossEntropyOptions& options, Tensor* unsmoothed) {
  require(states.rank() >= 1 && weight.rank() == 2 && states.size(-1) == weight.size(0),
          "projected_cross_entropy: the states are {}, the weight {}; the states' last size must be the weight's first",
          states, weight);
  Shape expected = targets.shape();
  expected.push_back(weight.size(0));
  require(states.shape() == expected, "projected_cross_entropy: the states are {}, the targets {}; expected states {}",
          states, targets, expected);
  const Variable x = reshape(states, {-1, states.size(-1)});
  // kernels of a GPU take i64, and targets that come from the CPU are cast there
  const bool is_cast = states.device() != Device::cpu && targets.dtype() == DType::i32;
  const Tensor classes = (is_cast ? targets.to(DType::i64) : targets).to(states.device()).reshape({-1});
  const Tensor counted = counted_rows(targets, options.ignored);
  LossAndGradients result = project(x, weight, bias, classes, counted.defined() ? counted.to(states.device()) : counted,
                                    options, unsmoothed != nullptr);
  if (unsmoothed) *unsmoothed = result.unsmoothed;
  Tensor loss = result.loss.to(states.dtype());
  if (!should_record({&x, &weight, &bias})) return loss;
  struct Kept {
    Saved x, weight, bias;
    SavedTensor classes;
    CrossEntropyOptions options;
    LossAndGradients result;
  };
  auto fused = [](const Kept& kept, const Gradients& g, const Node&) {
    Gradients gradients;
    for (const Tensor& of_one : {kept.result.states, kept.result.weight, kept.result.bias}) {
      Tensor gradient;
      if (of_one.defined()) {
        gradient = Tensor::empty_like(of_one);  // in the order of the weight, which may be a transposed embedding
        map_into(gradient, Multiply{}, of_one, g[0].value());
      }
      gradients.push_back(gradient.defined() ? Variable(gradient) : Variable());
    }
    return gradients;
  };
  auto composed = [](const Kept& kept, const Gradients& g, const Node& node) {
    const Variable &x = kept.x.get(node), &weight = kept.weight.get(node), &bias = kept.bias.get(node);
    Variable again = sum(cross_entropy(linear(x, weight, bias), kept.classes.get(node), kept.options));
    return partial_gradients(again, {x, weight, bias}, g[0]);
  };
  Kept kept{Saved(x), Saved(weight), Saved(bias), SavedTensor(classes, "targets"), options, result};
  return record("projected_cross_entropy", std::move(loss), {x, weight, bias},
                fused_rule(std::move(kept), fused, composed));
}

Variable binary_cross_entropy_loss(const Variable& logits, const Tensor& targets, Total total) {
  require(logits.shape() == targets.shape(),
          "binary_cross_entropy_loss: the logits are {}, the targets {}; both must have one shape", logits, targets);
  Variable losses = binary_cross_entropy(logits, targets);
  return total == Total::mean ? mean(losses) : sum(losses);
}

}  // namespace fovea
