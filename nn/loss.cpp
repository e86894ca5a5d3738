#include "nn/loss.h"

#include <algorithm>

#include "autograd/node.h"
#include "autograd/operations/cross_entropy.h"
#include "autograd/operations/gather.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/gemm.h"
#include "tensor/map.h"
#include "tensor/reduce.h"
#include "tensor/requirements.h"

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

/// The N rows that have a loss. `row` and `place` are undefined if all rows are computed, with or without a loss.
struct CountedRows {
  Tensor target;  ///< of each of the N rows
  Tensor row;     ///< the number of each of the N rows, i64 [N]
  Tensor place;   ///< of each row among the N, i64; N for a row that is not among them
};

/// The rows whose target is not ignored, on `device`. If the targets are on a GPU, all rows, because the host would
/// have to wait for the number of the others; the ignored ones get a loss of 0.
CountedRows counted_rows(const Tensor& targets, std::int64_t ignored, Device device) {
  // kernels of a GPU take i64, and targets that come from the CPU are cast there
  const bool is_cast = device != Device::cpu && targets.dtype() == DType::i32;
  if (targets.device() != Device::cpu)
    return {(is_cast ? targets.to(DType::i64) : targets).to(device).reshape({-1}), {}, {}};
  const std::vector<std::int64_t> values = targets.to_vector<std::int64_t>();
  std::vector<std::int64_t> target, row, all;
  for (std::size_t k = 0; k < values.size(); ++k)
    if (values[k] != ignored) target.push_back(values[k]), row.push_back(static_cast<std::int64_t>(k));
  const std::int64_t N = std::ssize(row), rows = std::ssize(values);
  all.assign(static_cast<std::size_t>(rows), N);
  for (std::size_t k = 0; k < row.size(); ++k) all[static_cast<std::size_t>(row[k])] = static_cast<std::int64_t>(k);
  all.insert(all.end(), row.begin(), row.end());
  all.insert(all.end(), target.begin(), target.end());
  const Tensor at = Tensor::from(all, {rows + 2 * N}).to(device);  // one copy to the device
  return {at.slice(0, rows + N, rows + 2 * N), at.slice(0, rows, rows + N), at.slice(0, 0, rows)};
}

/// The sums of the losses so far, f64 scalars, undefined before the first block, and the gradients with respect to
/// states, weight and bias. A gradient that is not needed is undefined.
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

/// Adds the loss of one block of N rows to `total`, together with its gradients with respect to weight and bias, which
/// the first block writes. Writes the gradient with respect to the block's states to `states_gradient`, unless that is
/// undefined. states [N, n], weight [n, V], bias [V] or undefined, targets [N]. `reports` says whether the loss without
/// smoothing is wanted.
void add_block(LossAndGradients& total, const Tensor& states, const Tensor& weight, const Tensor& bias,
               const Tensor& targets, const CrossEntropyOptions& options, bool reports, Tensor states_gradient) {
  const Tensor logits = bias.defined() ? matmul_plus_bias(states, weight, bias) : matmul(states, weight);
  CrossEntropyResult result = cross_entropy(logits, targets, options.label_smoothing, options.ignored);
  const bool is_first = !total.loss.defined();
  add_sum(total.loss, result.loss);
  if (options.label_smoothing > 0 && reports)
    add_unsmoothed(total.unsmoothed, logits, result.log_sum_exp, targets, options.ignored);
  if (!states_gradient.defined() && !total.weight.defined() && !total.bias.defined()) return;
  const Tensor ones = constant_like(states, 1).expand({states.size(0)});
  Tensor g =
      cross_entropy_backward(ones, logits, targets, result.log_sum_exp, options.label_smoothing, options.ignored);
  if (states_gradient.defined()) gemm(g, weight.transpose(0, 1), states_gradient);
  if (total.weight.defined()) gemm(states.transpose(0, 1), g, total.weight, 1, is_first ? 0 : 1);
  if (total.bias.defined()) total.bias = is_first ? sum(g, {0}) : map(Add{}, total.bias, sum(g, {0}));
}

/// Computes the loss of states [rows, n] and its gradients, block by block. `counted` lies on the states' device.
LossAndGradients project(const Variable& states, const Variable& weight, const Variable& bias,
                         const CountedRows& counted, const CrossEntropyOptions& options, bool reports) {
  // 8 MB of f32 on the CPU; 128 MB on a GPU, where each block takes a dozen launches
  const std::int64_t block_logits = std::int64_t{1} << (states.device() == Device::cpu ? 21 : 25);
  const bool records = should_record({&states, &weight, &bias}), are_some = counted.row.defined();
  auto needs = [&](const Variable& x) { return records && x.defined() && x.requires_grad(); };
  auto new_gradient = [&](const Variable& x) { return needs(x) ? Tensor::empty_like(x.value()) : Tensor(); };
  LossAndGradients total{{}, {}, {}, new_gradient(weight), new_gradient(bias)};
  const Tensor rows = are_some ? gather_rows(states.value(), counted.row) : states.value();
  const std::int64_t N = rows.size(0), V = weight.size(1);
  Tensor gradient;  // of the N rows, and then of one that is not among them: 0
  if (needs(states)) {
    gradient = Tensor::empty({N + are_some, rows.size(1)}, rows.dtype(), rows.device());
    gradient.slice(0, N, N + are_some).fill(0);
  }
  const std::int64_t block = std::max<std::int64_t>(block_logits / std::max<std::int64_t>(V, 1) / 64 * 64, 64);
  for (std::int64_t begin = 0; begin < N; begin += block) {
    const std::int64_t end = std::min(begin + block, N);
    add_block(total, rows.slice(0, begin, end), weight.value(), bias.defined() ? bias.value() : Tensor(),
              counted.target.slice(0, begin, end), options, reports,
              gradient.defined() ? gradient.slice(0, begin, end) : Tensor());
  }
  if (N == 0)
    for (Tensor* none : {&total.weight, &total.bias})
      if (none->defined()) none->fill(0);
  total.states = gradient.defined() && are_some ? gather_rows(gradient, counted.place) : gradient;
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
  visit_index("projected_cross_entropy", targets.dtype(), [](auto) {});  // throws for others
  if (targets.device() == Device::cpu)  // names its place among all; on a GPU the kernel does
    require_in_range("cross_entropy", "target", targets, weight.size(1), options.ignored);
  const Variable x = reshape(states, {-1, states.size(-1)});
  const LossAndGradients result =
      project(x, weight, bias, counted_rows(targets, options.ignored, states.device()), options, unsmoothed != nullptr);
  if (unsmoothed) *unsmoothed = result.unsmoothed;
  Tensor loss = result.loss.to(states.dtype());
  if (!should_record({&x, &weight, &bias})) return loss;
  struct Kept {
    Saved x, weight, bias;
    SavedTensor targets;
    CrossEntropyOptions options;
    LossAndGradients result;
  };
  auto fused = [](const Kept& kept, const Gradients& g, const Node&) {
    Gradients gradients;
    for (const Tensor& of_one : {kept.result.states, kept.result.weight, kept.result.bias}) {
      Variable& gradient = gradients.emplace_back();
      if (!of_one.defined()) continue;
      gradient = Tensor::empty_like(of_one);  // in the order of the weight, which may be a transposed embedding
      map_into(gradient.value(), GradientTimes{}, g[0].value(), of_one);
    }
    return gradients;
  };
  auto composed = [](const Kept& kept, const Gradients& g, const Node& node) {
    const Variable &x = kept.x.get(node), &weight = kept.weight.get(node), &bias = kept.bias.get(node);
    const Tensor classes = kept.targets.get(node).to(x.device()).reshape({-1});
    Variable again = sum(cross_entropy(linear(x, weight, bias), classes, kept.options));
    return partial_gradients(again, {x, weight, bias}, g[0]);
  };
  Kept kept{Saved(x), Saved(weight), Saved(bias), SavedTensor(targets, "targets"), options, result};
  return record("projected_cross_entropy", std::move(loss), {x, weight, bias},
                fused_rule(std::move(kept), fused, composed));
}

Variable binary_cross_entropy_loss(const Variable& logits, const Tensor& targets, Total total) {
  Variable losses = binary_cross_entropy(logits, targets);
  return total == Total::mean ? mean(losses) : sum(losses);
}

}  // namespace fovea
