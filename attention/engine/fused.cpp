#include "attention/engine/fused.h"

#include <algorithm>
#include <utility>

#include "attention/engine/cpu/fused_pass.h"
#include "autograd/node.h"
#include "autograd/operations.h"

namespace fovea {

namespace {

/// Memory for the forward pass's results. `record` says whether a backward pass may follow.
FusedResult make_result(const FusedCall& call, bool record) {
  const StripShape& s = call.shape;
  const DType dtype = call.in.query.dtype();
  FusedResult result;
  result.out = strip_gradient_room({s.sentences, s.heads, s.queries, call.in.value.size(-1)}, 1, dtype);
  result.log_total = Tensor::empty({call.planes, s.sentences, s.heads, s.queries, 2}, dtype);
  if (call.recurrence) result.carried = Tensor::zeros({s.sentences, s.heads, s.queries}, dtype);
  if (record) result.steps = room_for_steps(call);
  return result;
}

/// Tensors that the backward pass reads but does not differentiate. Their versions are checked.
std::vector<SavedTensor> watched_tensors(const FusedCall& call, const FusedResult& result) {
  const Plan& plan = *call.plan;
  std::vector<SavedTensor> watched;
  for (const Tensor* bound : {&call.in.visible.first, &call.in.visible.end})
    watched.emplace_back(*bound, "range of keys");
  for (const HeadMask& part : plan.masks) watched.emplace_back(part.mask, "mask");
  for (const auto* ranges : {&plan.ranges, &plan.always})
    for (const HeadKeys& part : *ranges)
      for (const Tensor* bound : {&part.keys.first, &part.keys.end}) watched.emplace_back(*bound, "range of keys");
  watched.emplace_back(result.carried, "second result");
  return watched;
}

/// Records the call as one node. Returns its outputs: the attention's output, and the recurrence's carried numbers.
std::vector<Variable> record_call(const std::shared_ptr<const FusedCall>& call, const FusedResult& result) {
  std::vector<Variable> inputs = call->inputs();
  if (!should_record(inputs)) return {result.out, result.carried};
  struct Kept {
    std::shared_ptr<const FusedCall> call;
    std::vector<Saved> inputs;
    std::vector<SavedTensor> watched;
    FusedResult result;  ///< without its output: the node must not hold that, and the backward pass does not read it

    std::vector<Variable> checked_inputs(const Node& node) const {
      for (const SavedTensor& tensor : watched) tensor.get(node);
      std::vector<Variable> x;
      for (const Saved& input : inputs) x.push_back(input.get(node));
      return x;
    }
  };
  auto fused = [](const Kept& kept, const Gradients& g, const Node& node) {
    const std::vector<Variable> inputs = kept.checked_inputs(node);
    std::vector<bool> wanted;
    for (std::size_t k = 0; k < inputs.size(); ++k) wanted.push_back(node.needs(k));
    const StripShape& s = kept.call->shape;
    const AttentionContext& in = kept.call->in;
    Tensor of_out = g[0].defined()
                        ? g[0].value()
                        : Tensor::zeros({s.sentences, s.heads, s.queries, in.value.size(-1)}, in.query.dtype());
    Tensor of_carried = g.size() > 1 && g[1].defined() ? g[1].value() : Tensor();
    Gradients gradients;
    for (Tensor& gradient : fused_backward(*kept.call, kept.result, of_out, of_carried, wanted))
      gradients.push_back(gradient.defined() ? Variable(std::move(gradient)) : Variable());
    return gradients;
  };
  auto composed = [](const Kept& kept, const Gradients& g, const Node& node) {
    return composed_gradients(kept.call->in, *kept.call->plan, kept.call->dropout, kept.checked_inputs(node), g);
  };
  Kept kept{call,
            std::vector<Saved>(inputs.begin(), inputs.end()),
            watched_tensors(*call, result),
            {{}, result.log_total, result.carried, result.steps}};
  auto node = make_node("fused_attention", inputs, fused_rule(std::move(kept), fused, composed));
  Variable out = output_of(node, 0, result.out);
  return {out, call->recurrence ? output_of(node, 1, result.carried) : Variable()};
}

}  // namespace

Variable attend_fused(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                      const AttentionDropout& dropout, AttentionTrace* trace) {
  if (in.query.device() != Device::cpu || !plan->dilations.empty()) return {};
  std::shared_ptr<const FusedCall> call = plan_call(in, plan, dropout);
  if (!call) return {};
  const StripShape& s = call->shape;
  FusedResult result = make_result(*call, should_record(call->inputs()));
  Tensor weights;
  if (trace) weights = Tensor::empty({call->planes, s.sentences, s.heads, s.queries, s.keys}, in.query.dtype());
  fused_forward(*call, result, weights);
  std::vector<Variable> outputs = record_call(call, result);
  if (plan->recurrence && in.memory) plan->recurrence->keep_carried(*in.memory, of_recurrent_heads(*plan, outputs[1]));
  if (trace) {
    if (!call->by_dimension) weights = weights.reshape({s.sentences, s.heads, s.queries, s.keys});
    if (plan->recurrence) plan->recurrence->set_carried(of_recurrent_heads(*plan, outputs[1]));
    fill_trace(in, *plan, with_dimensions_last(weights), *trace);
    if (plan->recurrence)
      plan->recurrence->set_carried(
          {});  // the carried numbers' node holds the terms; a reference back would be a cycle
  }
  return outputs[0];
}

}  // namespace fovea
