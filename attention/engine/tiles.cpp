#include "attention/engine/tiles.h"

#include <utility>

#include "attention/engine/blocks.h"
#include "attention/engine/maps_of_weights.h"
#include "autograd/node.h"
#include "autograd/operations.h"

namespace fovea {

TileKernels& attention_kernels() {
  static TileKernels kernels{};
  return kernels;
}

namespace {

/// The variables that a call has gradients for: values, queries and keys if their product is the score, captures, sink,
/// queries and keys of sources, extra keys, the table of relative values, the focus before the first query.
std::vector<Variable> inputs_of(const LoweredCall& call) {
  std::vector<Variable> inputs{call.values};
  if (call.queries.defined()) inputs.push_back(call.queries), inputs.push_back(call.keys);
  if (call.hidden_weight.defined()) inputs.push_back(call.hidden_weight);
  for (const LoweredCapture& capture : call.captures())
    if (!capture.is_made()) inputs.push_back(capture.value);
  if (call.sink.defined()) inputs.push_back(call.sink);
  for (const LoweredSource& source : call.sources) inputs.insert(inputs.end(), {source.queries, source.keys});
  if (call.extra.keys.defined()) inputs.insert(inputs.end(), {call.extra.queries, call.extra.keys, call.extra.values});
  if (call.relative.table.defined()) inputs.push_back(call.relative.table);
  if (call.focus && call.focus->previous.defined()) inputs.push_back(call.focus->previous);
  return inputs;
}

/// The gradients of inputs_of() the call.
std::vector<Tensor> in_order_of_inputs(const LoweredCall& call, const TileGradients& made) {
  std::vector<Tensor> all{made.values};
  if (call.queries.defined()) all.push_back(made.queries), all.push_back(made.keys);
  if (call.hidden_weight.defined()) all.push_back(made.hidden_weight);
  const std::vector<LoweredCapture> captures = call.captures();
  for (std::size_t k = 0; k < captures.size(); ++k) {
    if (captures[k].is_made()) continue;
    const Tensor& gradient = made.captures[k];
    all.push_back(gradient.defined() ? captures[k].gradient_of_value(gradient) : gradient);
  }
  if (call.sink.defined()) all.push_back(made.sink.defined() ? made.sink.transpose(1, 2) : made.sink);
  for (std::size_t s = 0; s < call.sources.size(); ++s)
    all.push_back(made.source_queries[s]), all.push_back(made.source_keys[s]);
  if (call.extra.keys.defined()) all.insert(all.end(), {made.extra_queries, made.extra_keys, made.extra_values});
  if (call.relative.table.defined()) all.push_back(made.relative);
  if (call.focus && call.focus->previous.defined()) all.push_back(made.previous_focus);
  return all;
}

/// Computes a call in which all heads have the same terms, and records it as one node. Adds its row quantities to
/// `rows` if it traces them.
AttentionOutput attend_group(const AttentionContext& in, const std::shared_ptr<const Plan>& plan, TileCall call,
                             std::vector<RowQuantities>& rows) {
  const std::vector<Variable> inputs = inputs_of(call.lowered);
  call.records = should_record(inputs) || call.traces_rows;  // the mass of keys is a gradient
  const TileResult result = attention_kernels().forward(call);
  if (std::exchange(call.traces_rows, false)) rows.push_back(result.rows);
  const AttentionDropout dropout = call.dropout;
  auto backward = [call = std::move(call), result, out = SavedTensor(result.out, "result")](
                      const Tensor& of_out, const Tensor& of_focus, const Node& node) {
    out.get(node);
    return in_order_of_inputs(call.lowered, attention_kernels().backward(call, result, of_out, of_focus));
  };
  return record_call("fused_attention", in, plan, dropout, inputs, result.out, result.focus.after, std::move(backward));
}

/// A group of heads, as attention of its own.
struct Group {
  AttentionContext in;
  std::shared_ptr<const Plan> plan;
  TileCall call;
};

/// The groups of a call, which make row quantities if it `traces_rows`. Returns the part of the plan that has no such
/// form, or null.
const char* make_groups(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                        const AttentionDropout& dropout, bool traces_rows, std::vector<Group>& groups) {
  const std::int64_t H = in.query.size(1);
  const std::vector<HeadRange> ranges = groups_of_heads(*plan, H);
  const bool is_one = ranges.size() == 1;
  for (HeadRange heads : ranges) {
    Group group{is_one ? in : context_of_heads(in, heads),
                is_one ? plan : std::make_shared<const Plan>(plan_of_heads(*plan, heads, H)),
                {}};
    Lowered lowered = lower(group.in, *group.plan);
    if (const auto* missing = std::get_if<const char*>(&lowered)) return *missing;
    group.call = {std::get<LoweredCall>(std::move(lowered)),
                  is_one ? dropout : dropout_of_heads(dropout, in, heads),
                  matmul_precision(),
                  {}};
    if (group.call.lowered.is_exact) group.call.products = Precision::f32;
    for (const LoweredCapture& capture : group.call.lowered.captures())
      group.call.wants.push_back(capture.is_made() || should_record({&capture.value}));
    group.call.traces_rows = traces_rows;
    if (const auto missing = attention_kernels().missing)  // null: CUDA was not built
      if (const char* part = missing(group.call)) return part;
    groups.push_back(std::move(group));
  }
  return nullptr;
}

thread_local CollectedTileCalls* collector_of_thread = nullptr;

}  // namespace

CollectedTileCalls::CollectedTileCalls() : before_(std::exchange(collector_of_thread, this)) {}
CollectedTileCalls::~CollectedTileCalls() { collector_of_thread = before_; }
CollectedTileCalls* CollectedTileCalls::current() { return collector_of_thread; }

TileCalls tile_calls(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                     const AttentionDropout& dropout, bool traces_rows) {
  if (const char* obstacle = obstacle_of_maps(*plan, traces_rows)) return {{}, obstacle};
  std::vector<Group> groups;
  for (const MapOfWeights& map : maps_of_weights(in, plan, dropout))
    if (const char* missing = make_groups(map.in, map.plan, map.dropout, traces_rows, groups)) return {{}, missing};
  TileCalls made;
  for (Group& group : groups) made.calls.push_back(std::move(group.call));
  return made;
}

FusedOutput attend_on_tiles(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                            const AttentionDropout& dropout, AttentionTrace* trace) {
  RowQuantities* rows = trace ? trace->rows : nullptr;
  std::vector<Group> groups;
  if (const char* missing = make_groups(in, plan, dropout, rows, groups)) return {{}, missing};
  std::vector<Variable> outputs, foci;
  std::vector<RowQuantities> rows_of_groups;
  for (Group& group : groups) {
    const AttentionOutput made = attend_group(group.in, group.plan, std::move(group.call), rows_of_groups);
    outputs.push_back(made.out);
    if (made.focus.defined()) foci.push_back(made.focus);
  }
  if (rows) *rows = heads_side_by_side(rows_of_groups);
  FusedOutput all{{heads_side_by_side(outputs), foci.empty() ? Variable() : heads_side_by_side(foci)}, nullptr};
  // the weights of all pairs take as much memory as the composed engine
  if (trace && !rows) trace_composed_weights(in, *plan, all.focus, *trace);
  return all;
}

}  // namespace fovea
