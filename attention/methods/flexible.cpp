#include "attention/methods/flexible.h"

#include <limits>

#include "attention/methods/score.h"
#include "autograd/operations.h"
#include "nn/auxiliary_losses.h"

namespace fovea {

void FlexibleAttention::visit(OptionVisitor& visitor, Options& options) {
  visitor.number("sigma", options.sigma, 1e-3, 1e6, "distance at which the penalty is g / 2, in tokens");
  visitor.number("threshold", options.threshold, 0, std::numeric_limits<double>::infinity(),
                 "tau: in evaluation, only keys with a smaller penalty are seen; inf: all keys");
  visitor.choice("p_init", options.p_init, {"0", "-1", "nopen"},
                 "focus before the first step; nopen: no penalty in the first step");
  visitor.flag("detach_focus", options.detach_focus, "gradients do not flow through the focus");
  visitor.integer("hidden", options.hidden, 0, 1 << 16,
                  "width of the hidden layer that predicts the gate; 0: the width of the queries");
  visitor.number("beta", options.beta, 0, 1e3, "reward for large gates in training, for fine-tuning: 0.1 in the paper");
}

FlexibleAttention::FlexibleAttention(const MethodShape& shape, const Options& options)
    : options_(options), step_dim_(shape.step_dim) {
  require(shape.place == Place::cross,
          "flexible: the focus is a position in the source; it is defined in cross-attention only");
  std::int64_t a = options.hidden > 0 ? options.hidden : shape.query_dim;
  const std::int64_t in = shape.query_dim + shape.step_dim;
  gate_projection_ =
      parameter("gate_projection", shape_of_heads(shape, {in, a}), Initializer::xavier_uniform(), rate_of_reading(in));
  gate_vector_ =
      parameter("gate_vector", shape_of_heads(shape, {a}), vector_initializer(a).scaled(0.1), rate_of_reading(a));
  gate_bias_ = parameter("gate_bias", {shape.heads}, Initializer::constant(-2));
}

Variable FlexibleAttention::gate(const AttentionContext& in, Plan& plan) const {
  Variable state = in.query;
  if (step_dim_ > 0) {
    require(in.step_input.defined() && in.step_input.size(2) == step_dim_,
            "flexible: the step input must have width {}; it is {}", step_dim_, in.step_input);
    Shape shape = in.query.shape();
    shape[3] = step_dim_;
    state = concat({state, broadcast_to(unsqueeze(in.step_input, 1), shape)}, 3);
  }
  const Variable hidden = tanh(project(state, gate_projection_));
  plan.quantity("hidden", [hidden] { return mean(abs(hidden), {3}); });
  return sigmoid(project_to_number(hidden, gate_vector_) + unsqueeze(gate_bias_, -1));  // [B, H, I]
}

void FlexibleAttention::add_terms(const AttentionContext& in, Plan& plan) {
  if (in.query.size(2) == 0) return;  // no focus moves
  Variable focus = in.previous_focus;
  if (!focus.defined() && in.memory) focus = in.memory->step_state(this);
  require(
      focus.defined() || in.query_offset == 0,
      "flexible: the first query is at step {}, but there is no previous focus; set previous_focus or decode with a "
      "memory",
      in.query_offset);
  Variable g = gate(in, plan);
  const bool opens_without_penalty = options_.p_init == FirstFocus::none && !focus.defined();
  plan.focus = FocusedSoftmax{
      .sigma = options_.sigma,
      .threshold = training() ? std::numeric_limits<double>::infinity() : options_.threshold,
      .first_focus = options_.p_init == FirstFocus::before_first_word ? -1.0 : 0.0,
      .opens_without_penalty = opens_without_penalty,
      .detach = options_.detach_focus,
      .gate = g,
      .previous = focus,
      .owner = this,
  };
  auto applied_gate = [g, opens_without_penalty] {
    if (!opens_without_penalty) return g;
    Tensor zero = Tensor::zeros({g.size(0), g.size(1), 1}, g.dtype(), g.device());
    return concat({zero, slice(g, 2, 1, g.size(2))}, 2);
  };
  plan.quantity("gate", applied_gate);
  if (options_.beta > 0 && training())
    if (AuxiliaryLosses* losses = AuxiliaryLosses::current()) losses->add(this, -options_.beta, applied_gate());
}

}  // namespace fovea
