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

/// The numbers [B, h, I] of the heads that the plan's recurrence acts on, from those of all heads [B, H, I].
Variable of_recurrent_heads(const Plan& plan, const Variable& carried) {
  const HeadRange heads = resolved(plan.recurrent_heads, carried.size(1));
  return heads.count == carried.size(1) ? carried : slice(carried, 1, heads.first, heads.first + heads.count);
}

/// The gradients as differentiable functions of the inputs, for second derivatives: those of the composed form.
Gradients composed_gradients(const FusedCall& call, const std::vector<Variable>& inputs, const Gradients& g) {
  Variable out = attend_composed(call.in, *call.plan, call.dropout, nullptr);
  Gradients total(inputs.size());
  auto add = [&](const Variable& output, const Variable& gradient) {
    if (!gradient.defined()) return;
    Gradients own = partial_gradients(output, inputs, gradient);
    for (std::size_t k = 0; k < own.size(); ++k)
      if (own[k].defined()) total[k] = total[k].defined() ? total[k] + own[k] : own[k];
  };
  add(out, g[0]);
  if (call.recurrence && g[1].defined()) add(call.plan->recurrence->carried(), of_recurrent_heads(*call.plan, g[1]));
  return total;
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
    return composed_gradients(*kept.call, kept.checked_inputs(node), g);
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
  if (in.query.device() != Device::cpu) return {};
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

std::vector<Variable> fused_inputs(const AttentionContext& in, const std::shared_ptr<const Plan>& plan) {
  std::shared_ptr<const FusedCall> call = plan_call(in, plan, {});
  require(call != nullptr,
          "attention: a term of this method has no form for the fused engine; use the composed engine");
  return call->inputs();
}

namespace {

thread_local AttentionEngine engine_of_thread = AttentionEngine::fastest;

/// Up to this many keys the composed engine is faster: for a single query, and for methods that do little but matrix
/// products (plain attention and windows). Measured by `benchmark attention --small`.
constexpr std::int64_t few_of_one_query = 24, few_of_products = 16;

bool is_faster_composed(const AttentionContext& in, const Plan& plan) {
  if (plan.recurrence || std::any_of(plan.scores.begin(), plan.scores.end(), [](auto& s) { return !s.is_default; }))
    return false;
  auto is_products = [](const PairTerm& term) { return std::holds_alternative<PointerWindow>(term.what); };
  const bool products = plan.score_changes.empty() &&
                        std::all_of(plan.biases.begin(), plan.biases.end(), is_products) &&
                        std::all_of(plan.windows.begin(), plan.windows.end(), is_products) && plan.values.empty();
  return in.key.size(2) <= (in.query.size(2) == 1 ? few_of_one_query : products ? few_of_products : 0);
}

}  // namespace

AttentionEngine attention_engine() { return engine_of_thread; }
AttentionEngineScope::AttentionEngineScope(AttentionEngine engine) : before_(std::exchange(engine_of_thread, engine)) {}
AttentionEngineScope::~AttentionEngineScope() { engine_of_thread = before_; }

Variable attend(const AttentionContext& in, Plan plan, double dropout, AttentionTrace* trace) {
  AttentionDropout drop{dropout, {}};
  if (dropout > 0) drop.at = RandomScope::next_call("attention: dropout");
  auto shared = std::make_shared<const Plan>(std::move(plan));
  const AttentionEngine engine = attention_engine();
  if (engine == AttentionEngine::fused || (engine == AttentionEngine::fastest && !is_faster_composed(in, *shared))) {
    Variable out = attend_fused(in, shared, drop, trace);
    if (out.defined()) return out;
    require(engine != AttentionEngine::fused,
            "attention: a term of this method has no form for the fused engine on {}; use the composed engine",
            name(in.query.device()));
  }
  Variable out = attend_composed(in, *shared, drop, trace);
  if (shared->recurrence && in.memory) shared->recurrence->keep_carried(*in.memory, shared->recurrence->carried());
  return out;
}

}  // namespace fovea
