#include "attention/engine/blockwise.h"

#include <algorithm>
#include <utility>

#include "attention/engine/blocks.h"
#include "autograd/node.h"
#include "autograd/operations.h"
#include "tensor/comparison.h"
#include "tensor/cpu/parallel.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

namespace {

/// A variable that a call reads, and its dimensions of heads, queries and keys, along which blocks slice it.
struct Input {
  Variable value;
  PairDimensions dimensions;
  HeadRange heads;  ///< the heads that its part of the plan acts on
};

/// One call, for the forward and the backward pass.
struct BlockwiseCall {
  AttentionContext in;
  std::shared_ptr<const Plan> plan;
  AttentionDropout dropout;
  std::vector<PairBlock> blocks;
  std::vector<Input> inputs;  ///< the defined variables of for_inputs()
};

/// for_variables() of a call's queries, keys and values and of its plan.
template <class F>
void for_inputs(AttentionContext& in, Plan& plan, const F& f) {
  const std::int64_t H = in.query.size(1);
  f(in.query, dimensions_of(Per::query_vector), HeadRange{0, H});
  f(in.key, dimensions_of(Per::key_vector), HeadRange{0, H});
  f(in.value, dimensions_of(Per::key_vector), HeadRange{0, H});
  for_variables(plan, H, f);
}

/// A block as a call of its own. Its variables are leaves of a new tape; `inputs` has them in the order of
/// for_inputs(), for the defined variables of the whole call, and is undefined where the block does not read one.
struct Block {
  AttentionContext in;
  Plan plan;
  std::vector<Variable> inputs;
  Variable focus_before = {};  ///< a leaf: the focus [B, h] after the previous block; undefined in the first block
};

/// Restricts all members of the context but queries, keys and values to the block.
void cut_context(AttentionContext& in, const AttentionContext& whole, const PairBlock& block) {
  const HeadRange all{0, whole.query.size(1)};
  auto cut = [&](Variable& x, PairDimensions dimensions) {
    if (x.defined()) x = Variable(of_block(x.value(), dimensions, all, block));
  };
  const PairDimensions query_rows{.query = 2}, key_rows{.key = 2}, pairs = dimensions_of(Per::pair);
  for (Variable* x : {&in.query_states, &in.projected_query, &in.step_input, &in.query_grid}) cut(*x, query_rows);
  for (Variable* x : {&in.length, &in.document_start, &in.query_positions}) cut(*x, {.query = 1});
  cut(in.key_grid, key_rows);
  for (Variable* states : {&in.key_states, &in.projected_key})  // with a memory they may have fewer rows than J
    if (states->defined() && states->size(1) == whole.key.size(2)) cut(*states, key_rows);
  cut(in.mask, pairs);
  in.allowed = of_block(in.allowed, pairs, all, block);
  for (Variable* pointer : {&in.left_pointer, &in.right_pointer})
    if (pointer->defined()) cut(*pointer, pointer->rank() == 4 ? pairs : dimensions_of(Per::query));
  in.visible = range_of_block(in.visible, all, block);
  cut(in.key_positions, {.key = 1});
  cut(in.previous_focus, {.head = 1});
  in.query_offset += block.queries.first;
  if (block.heads.count < all.count) in.whole = std::make_shared<const AttentionContext>(whole);
}

/// Replaces the call's previous focus, in this block, by the focus [B, h, 1] after the previous block.
void begin_with_focus(Block& cut, const Tensor& focus) {
  Variable& previous = cut.plan.focus->previous;
  const auto is_previous = [&](const Variable& x) { return previous.defined() && x.is_same(previous); };
  std::replace_if(cut.inputs.begin(), cut.inputs.end(), is_previous, Variable());
  previous = cut.focus_before = Variable(focus.reshape({focus.size(0), focus.size(1)}), true);
}

/// The block as a call of its own. `focus` [B, h, I] is the focus after each query, computed for all previous blocks;
/// undefined if the plan has no focus.
Block block_of_call(const BlockwiseCall& call, const PairBlock& block, const Tensor& focus) {
  Block cut{call.in, *call.plan, {}};
  const std::int64_t H = call.in.query.size(1);
  for_inputs(cut.in, cut.plan, [&](Variable& x, PairDimensions dimensions, HeadRange part) {
    if (!x.defined()) return;
    const bool is_in = common_heads(part, block.heads).count > 0;
    if (is_in) x = Variable(of_block(x.value(), dimensions, part, block), x.requires_grad());
    cut.inputs.push_back(is_in ? x : Variable());
  });
  Plan& plan = cut.plan;
  for (auto* ranges : {&plan.ranges, &plan.always})
    for (HeadKeys& range : *ranges) range.keys = range_of_block(range.keys, resolved(range.heads, H), block);
  for (HeadMask& mask : plan.masks)
    mask.mask = of_block(mask.mask, dimensions_of(Per::pair), resolved(mask.heads, H), block);
  if (block.is_dilated) plan.dilations.clear();
  keep_heads(plan, block.heads, H);
  cut_context(cut.in, call.in, block);
  if (plan.focus && block.queries.first > 0)
    begin_with_focus(cut, focus.slice(2, block.queries.first - 1, block.queries.first));
  return cut;
}

/// The factors of dropout for the block's weights [..., h, I, K]. They are the entries of the mask of the whole
/// matrices [..., H, I, J] for these pairs, so that blocks do not change which weights are dropped.
template <class T>
Tensor dropout_of_block(const BlockwiseCall& call, const PairBlock& block, const Tensor& weights) {
  const std::int64_t H = call.in.query.size(1), I = call.in.query.size(2), J = call.in.key.size(2);
  const std::int64_t h = block.heads.count, n = block.queries.count, K = block.keys.count;
  const DropoutMask mask = call.dropout.mask(J);
  Tensor factors = Tensor::empty(weights.shape(), weights.dtype());
  T* out = factors.mutable_data<T>();
  parallel_for(K > 0 ? weights.elements() / K : 0, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> row(static_cast<std::size_t>(J));
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t head = r / n % h + block.heads.first, matrix = r / n / h * H + head,
                         query = block.queries.first + r % n * block.queries.step;
      const Indices& keys = block.keys;
      dropout_factors(mask, matrix * I + query, keys.first, keys.first + (K - 1) * keys.step + 1, row.data());
      for (std::int64_t k = 0; k < K; ++k) out[r * K + k] = row[static_cast<std::size_t>(keys.first + k * keys.step)];
    }
  });
  return factors;
}

/// The weights of a block after dropout.
Variable dropped(const BlockwiseCall& call, const PairBlock& block, const Variable& weights) {
  const AttentionContext& in = call.in;
  const std::int64_t H = in.query.size(1), I = in.query.size(2), J = in.key.size(2);
  if (block.heads.count == H && block.queries.step == 1 && block.keys.first == 0 && block.keys.count == J) {
    AttentionDropout own = call.dropout;
    own.rows = block.queries.count;
    if (own.all_rows == 0) {
      own.all_rows = I, own.first_row = block.queries.first;
      return dropout(weights, own.mask(J));
    }
    std::vector<Variable> heads;  // the call has some heads of an attention, whose blocks of rows lie apart
    for (std::int64_t h = 0; h < H; ++h) {
      own.first_row = call.dropout.first_row + h * I + block.queries.first;
      heads.push_back(dropout(slice(weights, 1, h, h + 1), own.mask(J)));
    }
    return concat(heads, 1);
  }
  return weights * Variable(weights.dtype() == DType::f64 ? dropout_of_block<double>(call, block, weights.value())
                                                          : dropout_of_block<float>(call, block, weights.value()));
}

/// The output and focus of a block. Stores its weights before dropout unless `weights_of_trace` is null.
AttentionOutput block_output(const BlockwiseCall& call, const PairBlock& block, const Block& cut,
                             AttentionWeights* weights_of_trace) {
  AttentionWeights weights = composed_weights(cut.in, cut.plan);
  if (weights_of_trace) *weights_of_trace = weights;
  if (call.dropout.probability > 0) weights.tokens = dropped(call, block, weights.tokens);
  return {composed_output(cut.in, cut.plan, weights), weights.focus};
}

/// Copies a block's weights into `weights`, those of all heads, queries and keys. Allocates `weights` at the first
/// block.
void add_weights(const BlockwiseCall& call, const PairBlock& block, const Tensor& of_block_alone, Tensor& weights) {
  const HeadRange all{0, call.in.query.size(1)};
  if (!weights.defined()) {
    Shape shape = of_block_alone.shape();
    const int rank = shape.rank();
    shape[rank - 3] = all.count, shape[rank - 2] = call.in.query.size(2), shape[rank - 1] = call.in.key.size(2);
    weights = Tensor::zeros(shape, of_block_alone.dtype(), of_block_alone.device());
  }
  of_block(weights, dimensions_of(Per::pair), all, block).copy_from(of_block_alone);
}

/// Zeros in the shape of the row quantities of a whole call, for all heads, queries and keys. `of_block_alone`, the
/// quantities of one block, gives types and the other dimensions.
RowQuantities room_for_rows(const BlockwiseCall& call, const RowQuantities& of_block_alone) {
  RowQuantities rows;
  for (const auto member : row_quantities_members) {
    const Tensor& own = of_block_alone.*member;
    const bool is_per_key = member == &RowQuantities::key_mass;
    Shape shape = own.shape();
    shape[-2] = call.in.query.size(1), shape[-1] = is_per_key ? call.in.key.size(2) : call.in.query.size(2);
    rows.*member = Tensor::zeros(shape, own.dtype(), own.device());
  }
  return rows;
}

/// Copies a block's row quantities into `rows`, those of all heads, queries and keys, and adds its key_mass.
void add_rows(const BlockwiseCall& call, const PairBlock& block, RowQuantities own, RowQuantities& rows) {
  if (!rows.maximum.defined()) rows = room_for_rows(call, own);
  const auto step = static_cast<double>(block.keys.step), first = static_cast<double>(block.keys.first);
  const Tensor no_key = Tensor::zeros({1}, DType::i32, own.key.device()),
               in_row = map(Affine{step, first}, own.key.to(DType::f64)).to(DType::i32);
  own.key = where(less(own.key, no_key), own.key, in_row);
  const HeadRange all{0, call.in.query.size(1)};
  for (const auto member : row_quantities_members) {
    if (member != &RowQuantities::key_mass)
      of_block(rows.*member, {.head = 2, .query = 1}, all, block).copy_from(own.*member);
  }
  Tensor mass = of_block(rows.key_mass, {.head = 2, .key = 1}, all, block);
  map_into(mass, Add{}, mass, own.key_mass);
}

/// The output, and the focus after each query if the plan has a focus.
struct Result {
  Tensor out, focus;
};

Result forward(const BlockwiseCall& call, AttentionTrace* trace) {
  NoGrad off;
  const Shape &q = call.in.query.shape(), &v = call.in.value.shape();
  const HeadRange all{0, q[1]};
  auto room = [&](const Shape& shape) { return Tensor::empty(shape, call.in.query.dtype(), call.in.query.device()); };
  Result made{room({q[0], q[1], q[2], v[3]}), {}};
  Tensor weights;
  RowQuantities rows;
  if (call.plan->focus) made.focus = room(call.plan->focus->gate.shape());
  for (const PairBlock& block : call.blocks) {
    AttentionWeights of_trace;
    const Block cut = block_of_call(call, block, made.focus);
    const AttentionOutput own = block_output(call, block, cut, trace ? &of_trace : nullptr);
    of_block(made.out, dimensions_of(Per::query_vector), all, block).copy_from(own.out.value());
    if (made.focus.defined()) rows_of(made.focus, 1, block.queries).copy_from(own.focus.value());
    if (trace && trace->rows)
      add_rows(call, block, row_quantities(cut.in, cut.plan, of_trace), rows);
    else if (trace)
      add_weights(call, block, of_trace.tokens.value(), weights);
  }
  if (trace && trace->rows)
    *trace->rows = with_dimensions_last(rows);
  else if (trace)
    fill_trace(call.in, *call.plan, with_dimensions_last(weights), made.focus, *trace);
  return made;
}

/// The gradients of `inputs`, from those of the call's results and the gradient `carry` of the focus after this block,
/// which the next block's backward pass gives.
Gradients gradients_of_block(const BlockwiseCall& call, const PairBlock& block, const Block& cut,
                             const std::vector<Variable>& inputs, const Tensor& of_out, const Tensor& of_focus,
                             const Tensor& carry) {
  const AttentionOutput made = block_output(call, block, cut, nullptr);
  const Tensor own = of_block(of_out, dimensions_of(Per::query_vector), {0, call.in.query.size(1)}, block);
  if (!made.focus.defined()) return grad(made.out, inputs, own);
  Variable total = sum(made.out * Variable(own));
  if (of_focus.defined()) total = total + sum(made.focus * Variable(rows_of(of_focus, 1, block.queries)));
  if (carry.defined()) total = total + sum(select(made.focus, 2, block.queries.count - 1) * Variable(carry));
  return grad(total, inputs);
}

/// The gradients of the call's inputs for which node.needs() is true. Blocks are processed from last to first, because
/// the gradient of the focus flows from each block to the previous one.
std::vector<Tensor> backward(const BlockwiseCall& call, const Node& node, const Tensor& focus, const Tensor& of_out,
                             const Tensor& of_focus) {
  std::vector<Tensor> total(call.inputs.size());
  for (std::size_t k = 0; k < total.size(); ++k) {
    const Variable& input = call.inputs[k].value;
    if (node.needs(k)) total[k] = Tensor::zeros(input.shape(), input.dtype(), input.device());
  }
  GradMode recording(true);
  Tensor carry;  // gradient of the focus after the block, from the next block
  for (auto block = call.blocks.rbegin(); block != call.blocks.rend(); ++block) {
    const Block cut = block_of_call(call, *block, focus);
    std::vector<Variable> wanted;
    std::vector<std::size_t> places;
    for (std::size_t k = 0; k < total.size(); ++k) {
      if (!cut.inputs[k].defined() || !node.needs(k)) continue;
      wanted.push_back(cut.inputs[k]);
      places.push_back(k);
    }
    if (cut.focus_before.defined()) wanted.push_back(cut.focus_before);
    const Gradients own = gradients_of_block(call, *block, cut, wanted, of_out, of_focus, carry);
    if (cut.focus_before.defined()) carry = own.back().value();
    for (std::size_t k = 0; k < places.size(); ++k) {
      const Input& input = call.inputs[places[k]];
      Tensor part = of_block(total[places[k]], input.dimensions, input.heads, *block);
      map_into(part, Add{}, part, own[k].value());
    }
  }
  return total;
}

}  // namespace

AttentionOutput attend_blockwise(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                                 const AttentionDropout& dropout, AttentionTrace* trace) {
  if (in.query.size(2) == 0) return attend_composed(in, *plan, dropout, trace);  // there is no block
  // every_key: parts of a dropout mask can be computed on the CPU only, and a focus is a sum over all keys
  const bool every_key = plan->focus || (dropout.probability > 0 && in.query.device() != Device::cpu);
  BlockwiseCall call{in, plan, dropout, pair_blocks(in, *plan, attention_block_queries(), every_key), {}};
  std::vector<Variable> inputs;
  Plan visited = *plan;
  AttentionContext context = in;
  for_inputs(context, visited, [&](Variable& x, PairDimensions dimensions, HeadRange heads) {
    if (!x.defined()) return;
    call.inputs.push_back({x, dimensions, heads});
    inputs.push_back(x);
  });
  const Result made = forward(call, trace);
  auto of_blocks = [call = std::move(call), focus = made.focus](const Tensor& of_out, const Tensor& of_focus,
                                                                const Node& node) {
    return backward(call, node, focus, of_out, of_focus);
  };
  return record_call("blockwise_attention", in, plan, dropout, inputs, made.out, made.focus, std::move(of_blocks));
}

}  // namespace fovea
