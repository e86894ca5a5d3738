#include "nn/transformer.h"

#include <algorithm>
#include <array>

#include "autograd/map.h"
#include "autograd/operations.h"
#include "autograd/recompute.h"
#include "nn/auxiliary_losses.h"
#include "nn/lengths.h"
#include "tensor/constant.h"
#include "tensor/range.h"

namespace fovea {

namespace {

AttentionShape attention_shape(const TransformerOptions& options, int layer, Place place) {
  return {.model_dim = options.model_dim,
          .heads = options.heads,
          .head_dim = options.head_dim,
          .layer = layer,
          .layers = options.layers,
          .place = place,
          .dropout = options.attention_dropout};
}

/// Throws Error unless states are [B, T, d] and lengths fit them.
void check_states(const char* what, const Variable& states, const Tensor& lengths) {
  require(states.rank() == 3, "{}: the states are {}; expected [B, T, d]", what, states);
  require_lengths(what, lengths, states.size(0), 0, states.size(1));
}

/// Numbers beyond this are out of range, as in the attentions (layers/unseen_rows.h).
constexpr double largest_number = 1e8;

/// `value`, or 0 where x is a number of padding that is out of range: x itself, or a gradient.
struct UsablePadding {
  static constexpr const char* name = "usable_padding";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T value, T x, T position, T length) const {
    return select((abs(x) <= T(largest_number)) | (position < length), value, T(0));
  }
};

/// The states with 0 for numbers of padding that are NaN, infinite or beyond 1e8, which no layer could compute with:
/// gradients of parameters are sums over all rows, and 0 · NaN is NaN in them. On the CPU this is one pass over the
/// states.
Variable with_usable_padding(const Variable& states, const Tensor& lengths) {
  const Tensor& x = states.value();
  if (states.device() == Device::cpu && are_within(x, largest_number)) return states;
  const std::int64_t T = states.size(1);
  const Tensor position = shared_arange(T, states.dtype(), states.device()).reshape({T, 1});
  const Tensor length = lengths.to(states.dtype()).reshape({-1, 1, 1});
  return record("usable_padding", map(UsablePadding{}, x, x, position, length), {states},
                [x = Saved(states), position, length](const Gradients& g, const Node& node) -> Gradients {
                  return {map(UsablePadding{}, g[0], x.get(node), Variable(position), Variable(length))};
                });
}

/// The name of a sub-layer that is number `number`, from 1, of its kind: "cross", "cross_2", "cross_3", ...
std::string sub_layer_name(SubLayer::Kind kind, int number) {
  static constexpr std::array names{"attention", "cross", "feed_forward"};
  const char* name = names[static_cast<std::size_t>(kind)];
  return number == 1 ? name : fmt::format("{}_{}", name, number);
}

}  // namespace

SubLayers encoder_layer(const AttentionFactory& attention) {
  return {{SubLayer::Kind::attention, attention}, {SubLayer::Kind::feed_forward}};
}

SubLayers decoder_layer(const AttentionFactory& attention, const AttentionFactory& cross) {
  return {{SubLayer::Kind::attention, attention}, {SubLayer::Kind::cross, cross}, {SubLayer::Kind::feed_forward}};
}

TransformerLayer::TransformerLayer(const TransformerOptions& options, int layer, Place place,
                                   const SubLayers& sub_layers)
    : norm_(options.norm), causal_(place == Place::decoder), dropout_(options.dropout) {
  std::array<int, 3> counts{};  // of the sub-layers of each kind so far
  for (const SubLayer& sub_layer : sub_layers) {
    const std::string name = sub_layer_name(sub_layer.kind, ++counts[static_cast<std::size_t>(sub_layer.kind)]);
    Part part;
    part.cross = sub_layer.kind == SubLayer::Kind::cross;
    if (sub_layer.kind == SubLayer::Kind::feed_forward) {
      const FeedForward::Options block{options.activation, options.feed_forward_dropout, options.gated};
      part.feed_forward = std::make_unique<FeedForward>(options.model_dim, options.feed_forward_dim, block);
      child(name, *part.feed_forward);
    } else {
      part.attention = sub_layer.attention(attention_shape(options, layer, part.cross ? Place::cross : place));
      require(part.attention->output_dim() == options.model_dim,
              "attention: its result is {} wide; a layer adds it to states of width {}, so it must be as wide",
              part.attention->output_dim(), options.model_dim);
      child(name, *part.attention);
    }
    part.norm = make_norm(options.norm_kind, options.model_dim, options.norm_epsilon);
    child(name + "_norm", *part.norm);
    parts_.push_back(std::move(part));
  }
  child("dropout", dropout_);
}

bool TransformerLayer::has_independent_queries() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return !part.cross || part.attention->has_independent_queries(); });
}

Variable TransformerLayer::attend(Part& part, const Variable& states, const StackInput& in, Tensor* marks) {
  // Hypotheses of one source are passed as queries of one sentence: states [R, 1, d] become [sources, group, d].
  const std::int64_t group = part.cross && in.memory ? in.memory->hypotheses_per_source() : 0;
  AttentionInput attention{.query = group > 1 ? reshape(states, {-1, group, states.size(2)}) : states,
                           .key = part.cross ? in.source : states,
                           .value = part.cross ? in.source : states,
                           .key_lengths = part.cross ? in.source_lengths : in.lengths,
                           .key_lengths_are_checked = in.lengths_are_checked,
                           .causal = causal_ && !part.cross,
                           .query_offset = in.position,
                           .marks = marks};
  attention.memory = in.memory;
  attention.shared = in.shared;
  if (in.traces) {
    attention.trace = &in.traces->emplace_back();
    attention.trace->name = name() + "." + part.attention->name();
    attention.trace->place = part.cross ? Place::cross : causal_ ? Place::decoder : Place::encoder;
  }
  Variable attended = part.attention->forward(attention);
  return group > 1 ? reshape(attended, {-1, 1, attended.size(2)}) : attended;
}

/// The residual connection around a sub-layer that reads x, with the norm before it or behind it.
Residual TransformerLayer::after(Part& part, const Residual& x, const StackInput& in) {
  const bool norm_is_first = norm_ == Norm::pre;
  AddedAndNormed given;
  if (norm_is_first)
    given = part.norm->forward(x);
  else
    given.sum = given.normed = x.sum();
  Residual out{.states = given.sum, .dropout = dropout_.current_probability()};
  out.update = part.attention ? attend(part, given.normed, in, &out.number) : part.feed_forward->forward(given.normed);
  return norm_is_first ? out : Residual{part.norm->forward(out).normed};
}

Residual TransformerLayer::forward(Residual x, const StackInput& in) {
  Scope scope = enter();
  for (Part& part : parts_) x = after(part, x, in);
  return x;
}

TransformerStack::TransformerStack(const TransformerOptions& options, Place place, const SubLayers& sub_layers)
    : what_(place == Place::encoder ? "encoder" : "decoder"),
      has_cross_(std::any_of(sub_layers.begin(), sub_layers.end(),
                             [](const SubLayer& s) { return s.kind == SubLayer::Kind::cross; })),
      recompute_(options.recompute) {
  require(options.layers >= 0, "{}: there are {} layers; it must be at least 0", what_, options.layers);
  for (int layer = 0; layer < options.layers; ++layer) {
    layers_.push_back(std::make_unique<TransformerLayer>(options, layer, place, sub_layers));
    child(std::to_string(layer), *layers_.back());
  }
  if (options.norm == Norm::pre && options.final_norm) {
    norm_ = make_norm(options.norm_kind, options.model_dim, options.norm_epsilon);
    child("norm", *norm_);
  }
}

void TransformerStack::check(const StackInput& in) const {
  check_states(what_, in.states, in.lengths);
  if (!has_cross_) return;
  require(in.source.defined(), "{}: there is no source, but layers have cross-attention", what_);
  // In decoding the sources are the same at every position, and their lengths are checked at the first one.
  check_states(what_, in.source, in.memory && in.position > 0 ? Tensor() : in.source_lengths);
}

bool TransformerStack::has_independent_queries() const {
  return std::all_of(layers_.begin(), layers_.end(),
                     [](const auto& layer) { return layer->has_independent_queries(); });
}

/// The output of layer.forward(in), which the backward pass computes again. The auxiliary losses that the layer adds
/// are further outputs, so that they get their gradients too.
Variable TransformerStack::recomputed(TransformerLayer& layer, const StackInput& in) const {
  std::vector<Variable> inputs{in.states}, parameters;
  if (in.source.defined()) inputs.push_back(in.source);
  for (const NamedParameter& p : layer.parameters()) parameters.push_back(p.variable);
  using Terms = std::vector<AuxiliaryLosses::Term>;
  auto terms = std::make_shared<Terms>();  // of the call in the forward pass
  auto run = [&layer, in, first = std::weak_ptr<Terms>(terms)](const std::vector<Variable>& x) {
    AuxiliaryLosses losses;
    StackInput again = in;
    again.states = x[0];
    if (x.size() > 1) again.source = x[1];
    std::vector<Variable> outputs{layer.forward(again)};
    for (const AuxiliaryLosses::Term& term : losses.terms())
      outputs.insert(outputs.end(), term.values.begin(), term.values.end());
    if (auto to = first.lock()) *to = losses.terms();
    return outputs;
  };
  const std::vector<Variable> outputs = recompute("layer", run, inputs, parameters);
  auto value = outputs.begin() + 1;
  for (const AuxiliaryLosses::Term& term : *terms)
    for (std::size_t k = 0; k < term.values.size(); ++k, ++value)
      if (AuxiliaryLosses* losses = AuxiliaryLosses::current())
        losses->add(term.owner, term.weight, *value, term.lengths);
  return outputs[0];
}

Variable TransformerStack::forward(const StackInput& in) {
  Scope scope = enter();
  check(in);
  if (in.traces) in.traces->clear();
  StackInput at = in;
  at.lengths_are_checked = true;
  at.shared = std::make_shared<SharedTensors>();
  // all layers read the lengths, which are copied to the states' device once
  if (in.lengths.defined()) at.lengths = in.lengths.to(in.states.device());
  if (in.source_lengths.defined()) at.source_lengths = in.source_lengths.to(in.states.device());
  if (in.lengths.defined() && !in.memory) at.states = with_usable_padding(in.states, at.lengths);
  const bool recomputes = recompute_ == Recompute::layers && grad_enabled() && !in.traces && !in.memory;
  Residual x{at.states};
  for (auto& layer : layers_) {
    // Each layer reads the source through a node of its own, which adds up the layer's gradients first: the gradient
    // of the source has the same bits whether a layer is recomputed or not.
    if (in.source.defined() && !in.memory) at.source = reshape(in.source, in.source.shape());
    if (recomputes)
      at.states = x.sum(), x = {recomputed(*layer, at)};
    else
      x = layer->forward(x, at);
  }
  return norm_ ? norm_->forward(x).normed : x.sum();
}

}  // namespace fovea
