#include "attention/methods/gaussian.h"

#include "attention/engine/attend.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"

namespace fovea {

namespace {

/// Moves the heads to the front: [B, T, h] → [B, h, T].
Variable per_head(const Variable& x) { return transpose(x, 1, 2); }

/// The sum of the projected keys that each query may see: [B, 1, d] if all queries of a sentence see the same keys,
/// otherwise [B, I, d]. Takes O(I + J) memory.
Variable visible_key_sum(const AttentionContext& in) {
  const Variable& key = in.projected_key;
  const Tensor &first = in.visible.first, &end = in.visible.end;
  if (!end.defined() || end.size(2) == 1) {  // the same keys for all queries: allow is [B or 1, 1, 1, J]
    Tensor allow = in.allow();
    return allow.defined() ? matmul(Variable(allow.squeeze(1).to(key.dtype())), key) : sum(key, {1}, true);
  }
  // The sum over first ≤ j < end is the difference of two prefix sums. Column t of `prefix` is the sum of the first t
  // keys.
  Variable nothing = Tensor::zeros({key.size(0), key.size(2), 1}, key.dtype(), key.device());
  Variable prefix = concat({nothing, cumulative_sum(transpose(key, 1, 2))}, 2);  // [B, d, J + 1]
  const Tensor all = constant_like(end, static_cast<double>(key.size(1)));
  Variable total = gather_last(prefix, where(less(end, all), end, all));
  if (first.defined()) total = total - gather_last(prefix, first);
  return transpose(total, 1, 2);
}

/// The mean of the projected keys of all heads that each query may see, [B, 1, d], or [B, I, d] in causal attention.
Variable mean_visible_key(const AttentionContext& in) {
  Variable count = maximum(transpose(in.length, 1, 2), constant_like(in.length, 1));
  const Variable mean = visible_key_sum(in) / count;
  // heads that share a key have the same mean
  const std::int64_t D = in.key.size(3), H = (in.whole ? *in.whole : in).query.size(1), G = mean.size(2) / D;
  if (G == H) return mean;
  const Variable heads = reshape(mean, {mean.size(0), mean.size(1), G, 1, D});
  return reshape(broadcast_to(heads, {mean.size(0), mean.size(1), G, H / G, D}), {mean.size(0), mean.size(1), H * D});
}

}  // namespace

void GaussianLocalness::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("window", options.window, {"fixed", "layer", "query", "head"},
                 "width D: a constant, predicted for the layer or for each query, or learned for each head");
  visitor.number("width", options.width, 1e-3, 1e6, "with window=fixed: D, in tokens");
  visitor.number("largest_width", options.largest_width, 1e-3, 1e6,
                 "with window=head: N in D = N sigmoid(z), in tokens");
  visitor.choice("center_scale", options.center_scale, {"last", "paper"},
                 "last: P = (len - 1) sigmoid; paper: len sigmoid - 1");
  visitor.number("epsilon", options.epsilon, 0, 10,
                 "added to D, in tokens; 0: as in the paper, but D is at least 1e-3");
  visitor.choice("center_input", options.center_input, {"query", "q+ctx"},
                 "P is predicted from the query; q+ctx: also from the output of plain attention");
  visitor.flag("shared_width", options.shared_width, "with window=layer: one D for all heads");
  visitor.flag("linear", options.linear, "u_i without tanh, as in the code of Nguyen et al. 2020");
  visitor.flag("unit_initial", options.unit_initial,
               "initial values of hidden and center in 0 to 1, as in the code of Nguyen et al. 2020: the centres start "
               "at the last key");
  visitor.flag(
      "published_initial", options.published_initial,
      "initial values and learning rates of center and width as in the code of Yang et al. 2018: at rates such "
      "as 5e-3 their sigmoids saturate within a hundred updates");
}

namespace {

/// Reads d numbers for each of its outputs. `factor` multiplies the initial weights.
Linear::Options layer(const GaussianLocalness::Options& options, std::int64_t d, double factor) {
  if (options.unit_initial) return {.initializer = Initializer::uniform(0, 1)};
  if (options.published_initial) return {};
  return {.initializer = Initializer::xavier_uniform().scaled(factor), .rate = rate_of_reading(d)};
}

/// The output of attention without any method, [B, H, I, D], over the keys that each query may see.
Variable plain_attention(const AttentionContext& in) {
  Plan plan;
  if (in.allowed.defined()) plan.masks.push_back({in.allowed});
  return attend(in, std::move(plan), 0, nullptr);
}

}  // namespace

GaussianLocalness::GaussianLocalness(const MethodShape& shape, const Options& options)
    : options_(options),
      heads_(shape.heads),
      hidden_(shape.all_heads * shape.query_dim, shape.model_dim, layer(options, shape.all_heads * shape.query_dim, 1)),
      center_(shape.model_dim, shape.heads, layer(options, shape.model_dim, 0.1)) {
  child("hidden", hidden_);
  child("center", center_);
  if (options.center_input == CenterInput::query_and_context) {
    child("context",
          context_.emplace(shape.all_heads * shape.value_dim, shape.model_dim, Linear::Options{.bias = false}));
  }
  Options of_width = options;
  of_width.unit_initial = false;
  if (options.window == Window::layer) {
    const std::int64_t of_keys = shape.all_heads * shape.key_dim;
    child("width_hidden", width_hidden_.emplace(of_keys, shape.model_dim, layer(of_width, of_keys, 1)));
  }
  if (options.window == Window::layer || options.window == Window::query)
    child("width", width_.emplace(shape.model_dim, options.shared_width ? 1 : shape.heads,
                                  layer(of_width, shape.model_dim, 0.1)));
  if (options.window == Window::head) head_width_ = parameter("head_width", {shape.heads}, Initializer::zeros());
}

void GaussianLocalness::add_terms(const AttentionContext& in, Plan& plan) {
  Variable hidden = hidden_.forward(in.projected_query);
  if (context_) hidden = hidden + context_->forward(merge_heads(plain_attention(in.whole ? *in.whole : in)));
  if (!options_.linear) {
    hidden = tanh(hidden);  // u [B, I, d]
    plan.quantity("hidden", [hidden] { return mean(abs(unsqueeze(hidden, 1)), {3}); });
  }
  Variable P = center(in, hidden), D = width(in, hidden);
  const Variable one = constant_like(D, 1);
  plan.biases.push_back(pointwise(GaussianBias{}, PerQuery{P}, PerQuery{one / D}));
  plan.quantity("center", P);
  const bool by_query = options_.window == Window::query || options_.window == Window::layer;
  plan.quantity("width", broadcast_to(D, {P.size(0), heads_, by_query ? P.size(2) : 1}));
}

Variable GaussianLocalness::center(const AttentionContext& in, const Variable& hidden) const {
  Variable fraction = sigmoid(per_head(center_.forward(hidden)));  // [B, H, I]
  return in.in_row(options_.center_scale == CenterScale::last ? (in.length - 1) * fraction : in.length * fraction - 1);
}

Variable GaussianLocalness::width(const AttentionContext& in, const Variable& hidden) const {
  Variable D;
  switch (options_.window) {
    case Window::fixed:
      return Tensor::full({1, 1, 1}, options_.width, hidden.dtype(), hidden.device());
    case Window::layer:
      D = in.length * sigmoid(per_head(width_->forward(tanh(width_hidden_->forward(mean_visible_key(in))))));
      break;
    case Window::query:
      D = in.length * sigmoid(per_head(width_->forward(hidden)));
      break;
    case Window::head:
      D = options_.largest_width * sigmoid(reshape(head_width_, {heads_, 1}));
      break;
  }
  if (options_.epsilon > 0) return D + options_.epsilon;
  return maximum(D, constant_like(D, 1e-3));
}

}  // namespace fovea
