#include "attention/engine/fused.h"

#include <algorithm>
#include <utility>

#include "attention/engine/cpu/fused_pass.h"
#include "attention/engine/tiles.h"
#include "autograd/node.h"
#include "autograd/operations.h"
#include "tensor/reduce.h"

namespace fovea {

namespace {

/// Allocates the results of the forward pass. `record`: a backward pass may follow.
template <class T>
FusedResult make_result(const FusedCall<T>& call, bool record) {
  const StripShape& s = call.shape;
  const DType dtype = call.in.query.dtype();
  FusedResult result;
  result.out = empty_by_position({s.sentences, s.heads, s.queries, call.in.value.size(-1)}, dtype);
  result.log_total = Tensor::empty({call.planes, s.sentences, s.heads, s.queries, 2}, dtype);
  for (const auto& focus : call.focus) result.focus = Tensor::zeros({s.sentences, focus.heads.count, s.queries}, dtype);
  if (record) result.steps = memory_of_steps(call);
  return result;
}

/// Everything that the backward pass of a call needs.
template <class T>
struct SavedCall {
  std::shared_ptr<const FusedCall<T>> call;
  std::vector<Saved> inputs;
  std::vector<SavedTensor> watched;  ///< read by the backward pass, but not differentiated
  FusedResult result;  ///< without `out`: the node must not own its own output, and the backward pass does not read it

  /// The inputs. Throws Error if an input or watched tensor has changed since the forward pass.
  std::vector<Variable> checked_inputs(const Node& node) const {
    for (const SavedTensor& tensor : watched) tensor.get(node);
    std::vector<Variable> x;
    for (const Saved& input : inputs) x.push_back(input.get(node));
    return x;
  }
};

template <class T>
Gradients gradients_on_strips(const SavedCall<T>& saved, const Gradients& g, const Node& node) {
  std::vector<bool> wanted;
  for (std::size_t k = 0; k < saved.checked_inputs(node).size(); ++k) wanted.push_back(node.needs(k));
  const StripShape& s = saved.call->shape;
  const AttentionContext& in = saved.call->in;
  const Tensor of_out = g[0].defined()
                            ? g[0].value()
                            : Tensor::zeros({s.sentences, s.heads, s.queries, in.value.size(-1)}, in.query.dtype());
  const Tensor of_focus = g.size() > 1 && g[1].defined() ? g[1].value().contiguous() : Tensor();
  Gradients gradients;
  for (Tensor& gradient : fused_backward(*saved.call, saved.result, of_out, of_focus, wanted))
    gradients.push_back(gradient.defined() ? Variable(std::move(gradient)) : Variable());
  return gradients;
}

/// Records the call as one node.
template <class T>
AttentionOutput record_call(const std::shared_ptr<const FusedCall<T>>& call, const FusedResult& result) {
  std::vector<Variable> inputs = call->inputs();
  if (!should_record(inputs)) return {result.out, result.focus.defined() ? Variable(result.focus) : Variable()};
  auto composed = [](const SavedCall<T>& saved, const Gradients& g, const Node& node) {
    return composed_gradients(saved.call->in, *saved.call->plan, saved.call->dropout, saved.checked_inputs(node), g);
  };
  SavedCall<T> saved{call,
                     std::vector<Saved>(inputs.begin(), inputs.end()),
                     bounds_and_masks(call->in, *call->plan),
                     {{}, result.log_total, result.focus, result.steps}};
  saved.watched.emplace_back(result.focus, "second result");
  auto node = make_node("fused_attention", inputs, fused_rule(std::move(saved), gradients_on_strips<T>, composed));
  Variable out = output_of(node, 0, result.out);
  return {out, result.focus.defined() ? output_of(node, 1, result.focus) : Variable()};
}

/// The row quantities of a call in the layout of a trace, from those of its planes and parts.
template <class T>
RowQuantities rows_of_call(const FusedCall<T>& call, RowQuantities made) {
  made.key_mass = sum(made.key_mass, {0});
  if (!call.by_dimension)
    for (const auto member : row_quantities_members) made.*member = (made.*member).squeeze(0);
  return with_dimensions_last(std::move(made));
}

template <class T>
FusedOutput attend_on_strips(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                             const AttentionDropout& dropout, AttentionTrace* trace) {
  const auto [call, missing] = plan_call<T>(in, plan, dropout);
  if (!call) return {{}, missing};
  const StripShape& s = call->shape;
  FusedResult result = make_result(*call, should_record(call->inputs()));
  FusedTrace traced;
  if (trace && trace->rows)
    traced.rows = room_for_rows(*call);
  else if (trace)
    traced.weights = Tensor::empty({call->planes, s.sentences, s.heads, s.queries, s.keys}, in.query.dtype());
  fused_forward(*call, result, traced);
  AttentionOutput made = record_call(call, result);
  if (trace && trace->rows) {
    *trace->rows = rows_of_call(*call, traced.rows);
  } else if (trace) {
    const Tensor weights = call->by_dimension ? traced.weights : traced.weights.squeeze(0);
    fill_trace(in, *plan, with_dimensions_last(weights), made.focus, *trace);
  }
  return {made, nullptr};
}

}  // namespace

FusedOutput attend_fused(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                         const AttentionDropout& dropout, AttentionTrace* trace) {
  if (in.query.device() == Device::cuda) return attend_on_tiles(in, plan, dropout, trace);
  return visit_real("attention", in.query.dtype(), [&](auto type) {
    return attend_on_strips<typename decltype(type)::type>(in, plan, dropout, trace);
  });
}

}  // namespace fovea
