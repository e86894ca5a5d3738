#include "attention/engine/blockwise.h"

#include <algorithm>

#include "autograd/node.h"
#include "autograd/operations.h"

namespace fovea {

namespace {

/// The queries first ≤ i < first + count.
struct QueryBlock {
  std::int64_t first, count;
};

/// One call, which both passes share.
struct BlockwiseCall {
  AttentionContext in;
  std::shared_ptr<const Plan> plan;
  AttentionDropout dropout;
  std::int64_t block_queries;  ///< the most queries of a block
};

/// The queries of a block: its matrices of all pairs have about a million elements.
std::int64_t block_queries(const AttentionContext& in) {
  if (attention_block_queries() > 0) return attention_block_queries();
  const std::int64_t pairs_of_query = in.query.size(0) * in.query.size(1) * in.key.size(2);
  return std::clamp<std::int64_t>((std::int64_t{1} << 20) / std::max<std::int64_t>(pairs_of_query, 1), 16,
                                  std::max<std::int64_t>(in.query.size(2), 16));
}

template <class Body>
void for_blocks(const BlockwiseCall& call, const Body& body) {
  const std::int64_t I = call.in.query.size(2), most = call.block_queries;
  for (std::int64_t first = 0; first < I; first += most) body(QueryBlock{first, std::min(most, I - first)});
}

/// Which dimension of a capture is that of the queries, counted from the last one, which is 1; 0: none.
int query_dimension(Per per) {
  switch (per) {
    case Per::query:
      return 1;
    case Per::pair:
    case Per::offset:
    case Per::query_vector:
      return 2;
    case Per::head:
    case Per::key:
    case Per::key_vector:
    case Per::whole:
      break;
  }
  return 0;
}

/// Calls f(variable, its dimension of queries) for the queries, keys and values of a call and for all that its plan
/// reads. f may replace the variables.
template <class F>
void for_inputs(AttentionContext& in, Plan& plan, const F& f) {
  f(in.query, 2);
  f(in.key, 0);
  f(in.value, 0);
  auto of_score = [&](Score& score) {
    f(score.queries, 2);
    f(score.keys, 0);
    f(score.weight, 0);
  };
  auto of_captures = [&](std::vector<Capture>& captures) {
    for (Capture& capture : captures) f(capture.value, query_dimension(capture.per));
  };
  for (Score& score : plan.scores) of_score(score);
  for (auto* terms : {&plan.score_changes, &plan.biases, &plan.windows})
    for (PairTerm& term : *terms) of_captures(term.captures);
  for (ValueTerm& term : plan.values) of_captures(term.captures);
  for (Normalizer& part : plan.normalizers) of_captures(part.captures);
  for (HeadMixing& part : plan.mixings) {
    f(part.before, 0);
    f(part.after, 0);
  }
  for (SecondMap& part : plan.second_maps) {
    of_score(part.score);
    f(part.factor.value, query_dimension(part.factor.per));
  }
  for (ExtraKeys& part : plan.extra_keys) {
    f(part.keys, 0);
    f(part.values, 0);
  }
  f(plan.sink, 0);
}

/// The block's queries of x, where they are dimension `dimension` from the end; x itself if it is broadcast there.
Tensor of_block(const Tensor& x, int dimension, QueryBlock block) {
  if (!x.defined() || dimension == 0 || x.rank() < dimension || x.size(-dimension) == 1) return x;
  return x.slice(-dimension, block.first, block.first + block.count);
}
bool is_cut(const Tensor& x, int dimension) {
  return x.defined() && dimension > 0 && x.rank() >= dimension && x.size(-dimension) > 1;
}

/// A block as a call of its own, on leaves: the inputs of for_inputs(), in that order.
struct Block {
  AttentionContext in;
  Plan plan;
  std::vector<Variable> inputs;  ///< undefined where the call's is
};

Block block_of_call(const BlockwiseCall& call, QueryBlock queries) {
  Block block{call.in, *call.plan, {}};
  AttentionContext& in = block.in;
  auto cut = [&](Variable& x, int dimension) {
    if (x.defined()) x = Variable(of_block(x.value(), dimension, queries));
  };
  auto cut_range = [&](KeyRange& range) {
    range = {of_block(range.first, 1, queries), of_block(range.end, 1, queries)};
  };
  for_inputs(in, block.plan, [&](Variable& x, int dimension) {
    const bool wanted = x.defined() && x.requires_grad();
    if (x.defined()) x = Variable(of_block(x.value(), dimension, queries), wanted);
    block.inputs.push_back(x);
  });
  for (HeadKeys& range : block.plan.ranges) cut_range(range.keys);
  for (HeadKeys& range : block.plan.always) cut_range(range.keys);
  for (HeadMask& mask : block.plan.masks) mask.mask = of_block(mask.mask, 2, queries);
  in.allowed = of_block(in.allowed, 2, queries);
  cut_range(in.visible);
  cut(in.query_states, 2);
  cut(in.projected_query, 2);
  cut(in.mask, 2);
  cut(in.step_input, 2);
  cut(in.length, 1);
  cut(in.document_start, 1);
  cut(in.query_positions, 1);
  in.query_offset += queries.first;
  return block;
}

/// The weights of a block, before and after dropout, and its output.
Variable block_output(const BlockwiseCall& call, const Block& block, QueryBlock queries, Variable* weights_of_trace) {
  AttentionWeights weights = composed_weights(block.in, block.plan);
  if (weights_of_trace) *weights_of_trace = weights.tokens;
  if (call.dropout.probability > 0)
    weights.tokens = dropout(
        weights.tokens,
        call.dropout.mask(weights.tokens.size(-1)).of_rows(call.in.query.size(2), queries.first, queries.count));
  return composed_output(block.in, block.plan, weights);
}

Tensor forward(const BlockwiseCall& call, AttentionTrace* trace) {
  NoGrad off;
  const Shape &q = call.in.query.shape(), &v = call.in.value.shape();
  Tensor out = Tensor::empty({q[0], q[1], q[2], v[3]}, call.in.query.dtype(), call.in.query.device());
  std::vector<Variable> weights;
  for_blocks(call, [&](QueryBlock queries) {
    Variable of_trace;
    const Block block = block_of_call(call, queries);
    out.slice(2, queries.first, queries.first + queries.count)
        .copy_from(block_output(call, block, queries, trace ? &of_trace : nullptr).value());
    if (trace) weights.push_back(of_trace);
  });
  if (trace) fill_trace(call.in, *call.plan, with_dimensions_last(concat(weights, -2)), {}, *trace);
  return out;
}

/// The gradients of `inputs`, in the order of for_inputs(): of the defined ones for which node.needs() says so.
Gradients backward(const BlockwiseCall& call, const std::vector<Variable>& inputs, const Node& node, const Tensor& g) {
  std::vector<int> dimensions;
  Plan plan = *call.plan;
  AttentionContext in = call.in;
  for_inputs(in, plan, [&](Variable& x, int dimension) {
    if (x.defined()) dimensions.push_back(dimension);
  });
  std::vector<Tensor> total(inputs.size());
  GradMode recording(true);
  for_blocks(call, [&](QueryBlock queries) {
    const Block block = block_of_call(call, queries);
    std::vector<Variable> wanted;
    std::vector<std::size_t> places;
    std::size_t place = 0;
    for (const Variable& x : block.inputs) {
      if (!x.defined()) continue;
      if (node.needs(place)) {
        wanted.push_back(x);
        places.push_back(place);
      }
      ++place;
    }
    const Variable out = block_output(call, block, queries, nullptr);
    const Gradients own = grad(out, wanted, Variable(of_block(g, 2, queries)));
    for (std::size_t k = 0; k < own.size(); ++k) {
      Tensor& sum = total[places[k]];
      const Tensor& whole = inputs[places[k]].value();
      const int dimension = dimensions[places[k]];
      if (!sum.defined()) sum = Tensor::zeros(whole.shape(), whole.dtype(), whole.device());
      Tensor part = is_cut(whole, dimension) ? of_block(sum, dimension, queries) : sum;
      map_into(part, Add{}, part, own[k].value());
    }
  });
  Gradients gradients;
  for (Tensor& sum : total) gradients.push_back(sum.defined() ? Variable(std::move(sum)) : Variable());
  return gradients;
}

}  // namespace

AttentionOutput attend_blockwise(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                                 const AttentionDropout& dropout, AttentionTrace* trace) {
  if (plan->focus) return {};
  const BlockwiseCall call{in, plan, dropout, block_queries(in)};
  std::vector<Variable> inputs;
  Plan visited = *plan;
  AttentionContext context = in;
  for_inputs(context, visited, [&](Variable& x, int) {
    if (x.defined()) inputs.push_back(x);
  });
  Tensor out = forward(call, trace);
  if (!should_record(inputs)) return {out, {}};
  struct Kept {
    BlockwiseCall call;
    std::vector<Saved> inputs;
    std::vector<Variable> checked(const Node& node) const {
      std::vector<Variable> x;
      for (const Saved& input : inputs) x.push_back(input.get(node));
      return x;
    }
  };
  auto blocks = [](const Kept& kept, const Gradients& g, const Node& node) {
    return backward(kept.call, kept.checked(node), node, g[0].value());
  };
  auto composed = [](const Kept& kept, const Gradients& g, const Node& node) {
    return composed_gradients(kept.call.in, *kept.call.plan, kept.call.dropout, kept.checked(node), g);
  };
  Kept kept{call, std::vector<Saved>(inputs.begin(), inputs.end())};
  return {record("blockwise_attention", std::move(out), inputs, fused_rule(std::move(kept), blocks, composed)), {}};
}

}  // namespace fovea
