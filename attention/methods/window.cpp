#include "attention/methods/window.h"

#include "tensor/support/warning.h"

namespace fovea {

void DifferentiableWindow::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("use", options.use, {"multiplicative", "additive"}, "on the weights (MW) or on local logits (AW)");
  visitor.integer("segment", options.segment, 1, 1 << 20, "keys per segment, b; 1: by token");
  visitor.choice("mask", options.mask, {"paper", "exact", "prob_or", "discrete"},
                 "eq. 9; less its double count; x + y - x y; eq. 6");
  visitor.flag("renormalize", options.renormalize, "use=multiplicative: weights sum to 1 again");
  visitor.flag("forward_only", options.forward_only, "encoder: left pointer at or before i, right at or after");
  visitor.number("pointer_scale", options.pointer_scale, -1e3, 1e3, "multiplies the pointers' logits");
  visitor.flag("pointer_scale_by_length", options.pointer_scale_by_length, "and by the number of keys in sight");
}

DifferentiableWindow::DifferentiableWindow(const MethodShape& shape, const Options& options)
    : options_(options),
      head_dim_(shape.head_dim),
      left_query_(shape.model_dim, shape.heads * shape.head_dim),
      left_key_(shape.key_state_dim, shape.heads * shape.head_dim),
      right_query_(shape.model_dim, shape.heads * shape.head_dim),
      right_key_(shape.key_state_dim, shape.heads * shape.head_dim) {
  require(!options.forward_only || (shape.place == Place::encoder && options.mask == Mask::paper),
          "window: forward_only is for encoder self-attention with mask=paper");
  require(!options.renormalize || options.use == Use::multiplicative, "window: renormalize is for use=multiplicative");
  if (options.segment > 1 && shape.place == Place::decoder)
    warn(fmt::format(
        "window: segment={} in a decoder's self-attention: its last segments are not finished when they are "
        "pointed to; nothing later is seen, but the paper has segments in cross-attention alone",
        options.segment));
  child("left_query", left_query_);
  child("left_key", left_key_);
  child("right_query", right_query_);
  child("right_key", right_key_);
  if (options.use == Use::additive) {
    child("local_query", local_query_.emplace(shape.model_dim, shape.heads * shape.head_dim));
    child("local_key", local_key_.emplace(shape.key_state_dim, shape.heads * shape.head_dim));
  }
}

void DifferentiableWindow::add_layers(StateLayers& layers) const {
  layers.of_query.insert(layers.of_query.end(), {&left_query_, &right_query_});
  layers.of_key.insert(layers.of_key.end(), {&left_key_, &right_key_});
  if (!local_query_) return;
  layers.of_query.push_back(&*local_query_);
  layers.of_key.push_back(&*local_key_);
}

void DifferentiableWindow::add_terms(const AttentionContext& in, Plan& plan) {
  require(options_.segment == 1 || !in.document_start.defined(),
          "window: segment={} divides the row, not its documents; use segment=1 for several documents in one row",
          options_.segment);
  auto queries = [&](const Linear& projection) {
    return split_heads(in.project(projection, in.query_states), head_dim_);
  };
  auto keys = [&](const Linear& projection) {
    return split_heads(in.all_keys(&projection, [&] { return in.project(projection, in.key_states); }), head_dim_);
  };
  std::vector<Capture> captures{{Per::query_vector, queries(left_query_)},
                                {Per::key_vector, keys(left_key_)},
                                {Per::query_vector, queries(right_query_)},
                                {Per::key_vector, keys(right_key_)}};
  if (options_.use == Use::additive) {
    captures.push_back({Per::query_vector, queries(*local_query_)});
    captures.push_back({Per::key_vector, keys(*local_key_)});
  }
  const PointerWindow window{.additive = options_.use == Use::additive,
                             .segment = options_.segment,
                             .mask = options_.mask,
                             .forward_only = options_.forward_only,
                             .pointer_scale = in.scale() * options_.pointer_scale,
                             .pointer_scale_by_length = options_.pointer_scale_by_length,
                             .local_scale = in.scale()};
  std::vector<Variable> captured;
  for (const Capture& capture : captures) captured.push_back(capture.value);
  plan.quantity("left_pointer", [=] { return window_pointers(window, captured, in).left; });
  plan.quantity("right_pointer", [=] { return window_pointers(window, captured, in).right; });
  plan.quantity("window", [=] { return window_mask(window, captured, in); });
  (window.additive ? plan.biases : plan.windows).push_back({window, std::move(captures)});
  if (options_.renormalize) plan.windows.push_back({Renormalization{}});
}

}  // namespace fovea
