#include "attention/layers/multi_head.h"

#include <algorithm>

#include "attention/layers/context.h"
#include "attention/layers/unseen_rows.h"
#include "nn/joint_linear.h"

namespace fovea {

namespace {
/// Repeats each head `times` times in succession: x [B, G, T, D] → [B, G · times, T, D].
Variable repeat_heads(const Variable& x, std::int64_t times) {
  if (times == 1) return x;
  const Shape& shape = x.shape();
  Variable each = broadcast_to(unsqueeze(x, 2), {shape[0], shape[1], times, shape[2], shape[3]});
  return reshape(each, {shape[0], shape[1] * times, shape[2], shape[3]});
}

/// Whether every method with positioned() acts on all heads. If so, shared keys can be positioned before they are
/// repeated for the query heads.
bool are_positioned_alike(const PlacedMethods& methods, const AttentionShape& shape) {
  return std::all_of(methods.begin(), methods.end(), [&](const PlacedMethod& placed) {
    Surroundings own{.value_dim = shape.heads * shape.width_of_head()};
    placed.method->change(own);
    return !own.positioned || placed.heads == shape.heads;
  });
}
}  // namespace

MultiHeadAttention::MultiHeadAttention(const AttentionShape& shape, PlacedMethods methods)
    : shape_(with_widths(shape)),
      head_dim_(shape.width_of_head()),
      methods_(std::move(methods)),
      surroundings_(surroundings_of(methods_, shape.heads * head_dim_)),
      positioned_alike_(are_positioned_alike(methods_, shape)),
      key_heads_(surroundings_.key_heads > 0 ? surroundings_.key_heads : shape.heads),
      query_(shape.model_dim, shape.heads * head_dim_),
      key_(shape_.key_dim, head_dim_ * key_heads_),
      value_(shape_.value_dim, surroundings_.value_dim / std::max(shape.heads, 1) * key_heads_) {
  require(shape.heads > 0 && (shape.head_dim > 0 || shape.model_dim % shape.heads == 0),
          "attention: {} heads do not divide the width of the model, {}", shape.heads, shape.model_dim);
  require(surroundings_.value_dim % shape.heads == 0, "attention: {} heads do not divide the width of the values, {}",
          shape.heads, surroundings_.value_dim);
  require(shape.heads % key_heads_ == 0, "attention: {} key heads do not divide the {} query heads", key_heads_,
          shape.heads);
  child("query", query_);
  child("key", key_);
  child("value", value_);
  if (shape.output_projection) child("output", output_.emplace(surroundings_.value_dim, shape.model_dim));
  for (PlacedMethod& placed : methods_) child(placed.name, *placed.method);
  // In self-attention the three layers read one input, in cross-attention keys and values do.
  std::vector<const Linear*> together{&key_, &value_};
  if (shape.place != Place::cross) together.insert(together.begin(), &query_);
  const bool read_alike = std::all_of(together.begin(), together.end(), [&](const Linear* layer) {
    return layer->weight().size(0) == key_.weight().size(0);
  });
  if (!read_alike) return;
  std::vector<Variable> weights, biases;
  for (const Linear* layer : together) weights.push_back(layer->weight()), biases.push_back(layer->bias());
  store_side_by_side(weights);
  store_side_by_side(biases);
}

bool MultiHeadAttention::has_independent_queries() const {
  return std::all_of(methods_.begin(), methods_.end(),
                     [](const PlacedMethod& placed) { return placed.method->has_independent_queries(); });
}

/// Applies all layers that read the same states in one matrix product. Not with a decoder's memory: it may hold a
/// layer's results already, so each layer is applied when they are needed.
void MultiHeadAttention::project_together(const AttentionInput& input, AttentionContext& in) const {
  if (input.memory) return;
  StateLayers more;
  for (const PlacedMethod& placed : methods_) placed.method->add_layers(more);
  std::vector<std::pair<Variable, std::vector<const Linear*>>> of_inputs;
  auto add = [&](const Variable& x, const Linear* layer) {
    auto known =
        std::find_if(of_inputs.begin(), of_inputs.end(), [&](const auto& one) { return one.first.is_same(x); });
    if (known == of_inputs.end()) known = of_inputs.insert(known, {x, {}});
    known->second.push_back(layer);
  };
  add(input.query, &query_);
  add(input.key, &key_);
  add(input.value, &value_);
  for (const Linear* layer : more.of_query) add(input.query, layer);
  for (const Linear* layer : more.of_key) add(input.key, layer);
  auto projected = std::make_shared<std::vector<ProjectedStates>>();
  for (const auto& [x, layers] : of_inputs) {
    ProjectedStates& known = projected->emplace_back(ProjectedStates{x, {}});
    std::vector<Variable> results = forward_together(layers, x);
    for (std::size_t k = 0; k < layers.size(); ++k) known.results.emplace(layers[k], results[k]);
  }
  in.projected = std::move(projected);
}

AttentionContext MultiHeadAttention::context(const AttentionInput& input) const {
  require_states(input, shape_.model_dim, shape_.key_dim, shape_.value_dim);
  AttentionContext in = context_of(input, shape_.place);
  project_together(input, in);
  in.projected_query = in.project(query_, input.query);
  in.projected_key = in.all_keys(&key_, [&] { return in.project(key_, input.key); });
  in.query = split_heads(in.projected_query, head_dim_);
  const std::int64_t shared = shape_.heads / key_heads_;  // number of query heads that share one head of keys
  in.key = split_heads(in.projected_key, head_dim_);
  in.value = repeat_heads(split_heads(in.all_keys(&value_, [&] { return in.project(value_, input.value); }),
                                      surroundings_.value_dim / shape_.heads),
                          shared);
  require_stored_keys(input, in);
  add_given(in, input);
  return in;
}

MultiHeadAttention::Call MultiHeadAttention::call(const AttentionInput& input) {
  Call out{context(input), {}};
  AttentionContext& in = out.context;
  const auto position = [&](const Variable& heads, const TokenPositions& at) {
    return positioned(methods_, heads, at, shape_.heads);
  };
  const std::int64_t shared = shape_.heads / key_heads_;
  if (!positioned_alike_) in.key = repeat_heads(in.key, shared);
  if (surroundings_.positioned) position_heads(in, this, position);
  if (positioned_alike_) in.key = repeat_heads(in.key, shared);
  out.plan = plan_of(methods_, in);
  if (surroundings_.positioned) position_second_maps(in, out.plan, position);
  return out;
}

Variable MultiHeadAttention::forward(const AttentionInput& input) {
  const Scope scope(name().empty() ? "attention" : name());
  return forward_without_unseen(input, &shape_, true,
                                [this](const AttentionInput& clean) { return forward_of_clean(clean); });
}

Variable MultiHeadAttention::forward_of_clean(const AttentionInput& input) {
  auto [in, plan] = call(input);
  const Variable heads =
      outputs_of_heads(methods_, surroundings_, in, std::move(plan), training() ? shape_.dropout : 0, input.trace);
  return output_ ? output_->forward(heads) : heads;
}

}  // namespace fovea
