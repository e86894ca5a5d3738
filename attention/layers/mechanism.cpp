#include "attention/layers/mechanism.h"

#include "attention/engine/row_quantities.h"
#include "attention/layers/context.h"
#include "attention/layers/unseen_rows.h"

namespace fovea {

// ---- One mechanism

ClassicAttention::ClassicAttention(const AttentionShape& shape, PlacedMethods methods)
    : shape_(with_widths(shape)),
      methods_(std::move(methods)),
      surroundings_(surroundings_of(methods_, shape_.value_dim)) {
  require(surroundings_.value_dim == shape_.value_dim,
          "classic: the values are the inputs, {} wide; without projections no method can make them {} wide",
          shape_.value_dim, surroundings_.value_dim);
  for (std::int64_t width : {shape_.query_dim, shape_.key_dim, shape_.value_dim})
    require(shape_.heads > 0 && width % shape_.heads == 0,
            "classic: {} heads do not divide the widths of query, key and value, {}, {} and {}", shape_.heads,
            shape_.query_dim, shape_.key_dim, shape_.value_dim);
  require(surroundings_.key_heads == 0 || surroundings_.key_heads == shape_.heads,
          "classic: the keys are the inputs, of {} heads; without projections there cannot be {} heads of keys",
          shape_.heads, surroundings_.key_heads);
  require(shape_.head_dim == 0 || shape_.head_dim == shape_.query_dim / shape_.heads,
          "classic: each head is a part of the inputs, {} wide; without projections it cannot be {} wide (head_dim)",
          shape_.query_dim / shape_.heads, shape_.head_dim);
  for (PlacedMethod& placed : methods_) child(placed.name, *placed.method);
}

MethodShape ClassicAttention::method_shape(const AttentionShape& raw, int heads) {
  const AttentionShape shape = with_widths(raw);
  const std::int64_t H = shape.heads;
  return {.model_dim = shape.query_dim,
          .head_dim = shape.query_dim / H,
          .all_heads = shape.heads,
          .heads = heads,
          .layer = shape.layer,
          .place = shape.place,
          .query_dim = shape.query_dim / H,
          .key_dim = shape.key_dim / H,
          .value_dim = shape.value_dim / H,
          .step_dim = shape.step_dim,
          .key_state_dim = shape.key_dim};
}

Variable ClassicAttention::forward(const AttentionInput& input) {
  Scope scope = enter();
  return forward_without_unseen(input, &shape_, false,
                                [this](const AttentionInput& clean) { return forward_of_clean(clean); });
}

Variable ClassicAttention::forward_of_clean(const AttentionInput& input) {
  const Shape &q = input.query.shape(), &k = input.key.shape(), &v = input.value.shape();
  require_states(input, shape_.query_dim, shape_.key_dim, shape_.value_dim);
  const std::int64_t H = shape_.heads;
  AttentionContext in = context_of(input, shape_.place);
  in.projected_query = input.query;
  in.projected_key = input.appends_keys() ? input.memory->append(this, input.key) : input.key;
  in.query = split_heads(in.projected_query, q[2] / H);
  in.key = split_heads(in.projected_key, k[2] / H);
  auto values = [&] { return input.appends_keys() ? input.memory->append(&methods_, input.value) : input.value; };
  in.value = input.value.is_same(input.key) ? in.key : split_heads(values(), v[2] / H);
  require_stored_keys(input, in);
  add_given(in, input);
  const auto position = [&](const Variable& heads, const TokenPositions& at) {
    return positioned(methods_, heads, at, H);
  };
  if (surroundings_.positioned) position_heads(in, &surroundings_, position);
  Plan plan = plan_of(methods_, in);
  if (surroundings_.positioned) position_second_maps(in, plan, position);
  std::int64_t heads_with_score = 0;
  for (const Score& score : plan.scores) heads_with_score += resolved(score.heads, H).count;
  require(
      heads_with_score == H || q[2] == k[2],
      "attention: queries are {} wide and keys {} wide; their product needs equal widths (general and additive do not)",
      q[2], k[2]);
  return outputs_of_heads(methods_, surroundings_, in, std::move(plan), training() ? shape_.dropout : 0, input.trace);
}

/// The only one of the mechanisms.
static const AttentionFactory& only(const char* combination, const std::vector<AttentionFactory>& mechanisms) {
  require(mechanisms.size() == 1, "{}: {} mechanisms, expected one; average(...) and concat(...) take several",
          combination, mechanisms.size());
  return mechanisms[0];
}

void Classic::visit(OptionVisitor& visitor, Options& options) {
  visitor.integer("heads", options.heads, 1, 1024, "number of heads, a divisor of the widths of the inputs");
}

std::unique_ptr<Attention> Classic::make(AttentionShape shape, const std::vector<AttentionFactory>& mechanisms,
                                         const Options& options) {
  shape.heads = static_cast<int>(options.heads);
  return only("classic", mechanisms)(shape);
}

void MultiHead::visit(OptionVisitor& visitor, Options& options) {
  visitor.integer("heads", options.heads, 0, 1024, "number of heads, a divisor of the width; 0: as many as the model");
  visitor.flag("output", options.output, "apply the projection W^O; false: the output is the concatenated heads");
}

std::unique_ptr<Attention> MultiHead::make(AttentionShape shape, const std::vector<AttentionFactory>& mechanisms,
                                           const Options& options) {
  if (options.heads > 0) shape.heads = static_cast<int>(options.heads);
  shape.output_projection = options.output;
  return only("multi_head", mechanisms)(shape);
}

// ---- Combinations of several mechanisms

MixedAttention::MixedAttention(const char* name, const AttentionShape& raw,
                               const std::vector<AttentionFactory>& mechanisms, HeadInput head_input) {
  AttentionShape shape = with_widths(raw);
  auto K = static_cast<std::int64_t>(mechanisms.size());
  if (head_input == HeadInput::split) {
    std::int64_t d = shape.model_dim;
    require(d % K == 0, "{}: {} mechanisms do not divide the width {} (head_input=split)", name, K, d);
    child("query", query_.emplace(shape.query_dim, d));
    child("key", key_.emplace(shape.key_dim, d));
    child("value", value_.emplace(shape.value_dim, d));
    shape.model_dim = shape.query_dim = shape.key_dim = shape.value_dim = d / K;
  }
  for (std::int64_t k = 0; k < K; ++k) {
    mechanisms_.push_back(mechanisms[static_cast<std::size_t>(k)](shape));
    child(fmt::format("head_{}", k + 1), *mechanisms_.back());
  }
}

std::int64_t MixedAttention::value_dim() const {
  std::int64_t sum = 0;
  for (const auto& mechanism : mechanisms_) sum += mechanism->output_dim();
  return sum;
}

std::int64_t MixedAttention::heads() const {
  std::int64_t sum = 0;
  for (const auto& mechanism : mechanisms_) sum += mechanism->heads();
  return sum;
}

/// The part of x [B, heads, ...] that mechanism k, counted from 0, reads. An x of less than `rank` or more than 4
/// dimensions is returned as it is: either it has no dimension of heads, or the mechanism throws Error for it. `what`
/// names x in the message.
Variable MixedAttention::part_of_mechanism(const Variable& x, int rank, std::int64_t k, const char* what) const {
  if (!x.defined() || !x.value().defined() || x.rank() < rank || x.rank() > 4 || x.size(1) == 1) return x;
  if (x.size(1) == mechanisms()) return slice(x, 1, k, k + 1);
  require(
      x.size(1) == heads(),
      "attention: the {} is {}; its dimension of heads is {}, expected 1, {} (one per mechanism) or {} (one per head "
      "of all mechanisms)",
      what, x, x.size(1), mechanisms(), heads());
  std::int64_t first = 0;
  for (std::int64_t before = 0; before < k; ++before) first += mechanism(before).heads();
  return slice(x, 1, first, first + mechanism(k).heads());
}

std::vector<AttentionInput> MixedAttention::inputs_of_mechanisms(const AttentionInput& input) const {
  auto K = static_cast<std::int64_t>(mechanisms_.size());
  Variable query = input.query, key = input.key, value = input.value;
  if (query_) {
    // causal: each mechanism appends its part to the memory, so the projections here see this call's keys only
    DecoderMemory* memory = input.causal ? nullptr : input.memory;
    query = query_->forward(query);
    key = all_keys(memory, false, &key_, [&] { return key_->forward(input.key); });
    value = all_keys(memory, false, &value_, [&] { return value_->forward(input.value); });
  }
  std::vector<AttentionInput> inputs;
  for (std::int64_t k = 0; k < K; ++k) {
    AttentionInput own = input;
    auto part = [&](const Variable& x) {
      std::int64_t width = x.size(2) / K;
      return query_ ? slice(x, 2, k * width, (k + 1) * width) : x;
    };
    own.query = part(query);
    own.key = part(key);
    own.value = input.value.is_same(input.key) && !query_ ? own.key : part(value);
    own.trace = nullptr;
    own.previous_focus = part_of_mechanism(input.previous_focus, 2, k, "previous focus");
    own.mask = part_of_mechanism(input.mask, 4, k, "mask");
    own.left_pointer = part_of_mechanism(input.left_pointer, 3, k, "left_pointer");
    own.right_pointer = part_of_mechanism(input.right_pointer, 3, k, "right_pointer");
    own.allowed = part_of_mechanism(Variable(input.allowed), 4, k, "mask 'allowed'").value();
    inputs.push_back(own);
  }
  return inputs;
}

Variable MixedAttention::forward(const AttentionInput& input) {
  Scope scope = enter();
  if (input.memory && !query_) return outputs_together(input);  // each mechanism knows when it reads the source
  return forward_without_unseen(input, &query_, true,
                                [this](const AttentionInput& clean) { return outputs_together(clean); });
}

Variable MixedAttention::outputs_together(const AttentionInput& input) {
  std::vector<AttentionInput> inputs = inputs_of_mechanisms(input);
  std::vector<Variable> outputs, weights;
  std::int64_t first_head = 0;
  std::vector<RowQuantities> rows(input.trace && input.trace->rows ? inputs.size() : 0);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    AttentionTrace trace;
    if (!rows.empty()) trace.rows = &rows[k];
    if (input.trace) inputs[k].trace = &trace;
    outputs.push_back(mechanisms_[k]->forward(inputs[k]));
    if (!input.trace) continue;
    weights.push_back(trace.weights);
    for (TracedQuantity& quantity : trace.quantities) {
      quantity.name = fmt::format("head_{}.{}", k + 1, quantity.name);
      quantity.first_head += first_head;
      input.trace->quantities.push_back(std::move(quantity));
    }
    if (trace.weights.defined()) first_head += trace.weights.size(1);
  }
  if (!rows.empty())
    *input.trace->rows = heads_side_by_side(rows);
  else if (input.trace)
    input.trace->weights = heads_side_by_side(std::move(weights));
  return combine(outputs);
}

void AverageAttention::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("head_input", options.head_input, {"full", "split"},
                 "full: each mechanism reads the whole inputs; split: a part of their projections");
}

AverageAttention::AverageAttention(const AttentionShape& shape, const std::vector<AttentionFactory>& mechanisms,
                                   const Options& options)
    : MixedAttention("average", shape, mechanisms, options.head_input) {
  for (std::int64_t k = 1; k < this->mechanisms(); ++k)
    require(mechanism(k).output_dim() == output_dim(),
            "average: the output of mechanism {} is {} wide, that of mechanism 1 is {}; they must be equally wide",
            k + 1, mechanism(k).output_dim(), output_dim());
}

Variable AverageAttention::combine(const std::vector<Variable>& outputs) const {
  Variable total = outputs[0];
  for (std::size_t k = 1; k < outputs.size(); ++k) total = total + outputs[k];
  return total / static_cast<double>(outputs.size());
}

void ConcatAttention::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("head_input", options.head_input, {"full", "split"},
                 "full: each mechanism reads the whole inputs; split: a part of their projections");
  visitor.flag("linear", options.linear, "multiply the concatenation by W, without a bias");
  visitor.integer("width", options.width, 0, 1 << 16, "width of that layer's output; 0: the width of the values");
}

ConcatAttention::ConcatAttention(const AttentionShape& shape, const std::vector<AttentionFactory>& mechanisms,
                                 const Options& options)
    : MixedAttention("concat", shape, mechanisms, options.head_input) {
  std::int64_t width = options.width > 0 ? options.width : with_widths(shape).value_dim;
  if (options.linear) child("output", output_.emplace(value_dim(), width, Linear::Options{.bias = false}));
}

Variable ConcatAttention::combine(const std::vector<Variable>& outputs) const {
  Variable all = concat(outputs, 2);
  return output_ ? output_->forward(all) : all;
}

}  // namespace fovea
