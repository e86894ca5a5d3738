#include "attention/engine/fused.h"

#include <algorithm>
#include <utility>

#include "attention/engine/cpu/fused_pass.h"
#include "attention/engine/maps_of_weights.h"
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
  const PlannedCall<T> planned = plan_call<T>(in, plan, dropout);
  if (!planned.call) return {{}, planned.missing};
  const std::shared_ptr<const FusedCall<T>> call = planned.call;
  const std::vector<Variable> inputs = call->inputs();
  const StripShape& s = call->shape;
  FusedResult result = make_result(*call, should_record(inputs));
  FusedTrace traced;
  if (trace && trace->rows)
    traced.rows = room_for_rows(*call);
  else if (trace)
    traced.weights = Tensor::empty({call->planes, s.sentences, s.heads, s.queries, s.keys}, in.query.dtype());
  fused_forward(*call, result, traced);
  const Tensor out = std::exchange(result.out, {});  // the backward pass does not read it
  auto backward = [call, result](const Tensor& of_out, const Tensor& of_focus, const Node& node) {
    std::vector<bool> wanted;
    for (std::size_t k = 0; k < node.inputs().size(); ++k) wanted.push_back(node.needs(k));
    return fused_backward(*call, result, of_out, of_focus, wanted);
  };
  const AttentionOutput made =
      record_call("fused_attention", in, call->plan, dropout, inputs, out, result.focus, backward);
  if (trace && trace->rows) {
    *trace->rows = rows_of_call(*call, traced.rows);
  } else if (trace) {
    const Tensor weights = call->by_dimension ? traced.weights : traced.weights.squeeze(0);
    fill_trace(in, *plan, with_dimensions_last(weights), made.focus, *trace);
  }
  return {made, nullptr};
}

/// The output of a plan without second maps, on the device of its tensors.
FusedOutput attend_one_map(const MapOfWeights& map, AttentionTrace* trace) {
  if (map.in.query.device() == Device::cuda) return attend_on_tiles(map.in, map.plan, map.dropout, trace);
  return visit_real("attention", map.in.query.dtype(), [&](auto type) {
    return attend_on_strips<typename decltype(type)::type>(map.in, map.plan, map.dropout, trace);
  });
}

/// The sum of the maps' outputs, each times its factor.
FusedOutput attend_maps(const std::vector<MapOfWeights>& maps, const std::vector<SecondMap>& second_maps) {
  const AttentionContext& in = maps[0].in;
  FusedOutput all = attend_one_map(maps[0], nullptr);
  for (std::size_t k = 0; k < second_maps.size() && !all.missing; ++k) {
    const HeadRange heads = resolved(second_maps[k].heads, in.query.size(1));
    const FusedOutput made = attend_one_map(maps[k + 1], nullptr);
    if (made.missing) return made;
    const Variable more = spread(second_maps[k].factor, maps[k + 1].in) * made.out;
    all.out = replace_heads(all.out, slice_heads(all.out, heads) + more, heads);
  }
  return all;
}

}  // namespace

FusedOutput attend_fused(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                         const AttentionDropout& dropout, AttentionTrace* trace) {
  if (plan->second_maps.empty()) return attend_one_map({in, plan, dropout}, trace);
  if (const char* obstacle = obstacle_of_maps(*plan, trace && trace->rows)) return {{}, obstacle};
  const FusedOutput made = attend_maps(maps_of_weights(in, plan, dropout), plan->second_maps);
  if (trace && !made.missing) trace_composed_weights(in, *plan, {}, *trace);
  return made;
}

}  // namespace fovea
