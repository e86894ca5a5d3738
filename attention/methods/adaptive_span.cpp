#include "attention/methods/adaptive_span.h"

#include "attention/methods/ranges.h"
#include "nn/auxiliary_losses.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

void AdaptiveSpan::visit(OptionVisitor& visitor, Options& options) {
  visitor.number("ramp", options.ramp, 1e-3, 1e6, "R, the distance over which the mask falls from 1 to 0, in tokens");
  visitor.number("longest", options.longest, 1e-3, 1e9, "upper bound of the spans z, in tokens");
  visitor.flag("after_softmax", options.after_softmax,
               "multiply the weights after the softmax by the mask; they then sum to at most 1");
  visitor.flag("from_query", options.from_query, "predict a span for each query from its state");
  visitor.number("penalty", options.penalty, 0, 1e3, "penalty on the mean span in training, per token of the span");
}

AdaptiveSpan::AdaptiveSpan(const MethodShape& shape, const Options& options)
    : options_(options), span_(parameter("span", {shape.heads}, Initializer::constant(-4))) {
  if (options.from_query)
    predictor_ = parameter("predictor", {shape.model_dim, shape.heads}, Initializer::xavier_uniform().scaled(0.1),
                           rate_of_reading(shape.model_dim));
}

void AdaptiveSpan::add_terms(const AttentionContext& in, Plan& plan) {
  Variable z = reshape(sigmoid(span_) * options_.longest, {1, span_.size(0), 1});  // [1, H, 1] or [B, H, I]
  if (predictor_.defined())
    z = sigmoid(transpose(matmul(in.query_states, predictor_) + span_, 1, 2)) * options_.longest;
  if (options_.penalty > 0 && training())
    if (AuxiliaryLosses* losses = AuxiliaryLosses::current()) {
      const bool knows_lengths = in.place == Place::encoder && in.length.size(2) == 1;
      losses->add(this, options_.penalty, z, knows_lengths ? in.length.value().reshape({-1}) : Tensor());
    }
  const Variable reach = z + options_.ramp;
  plan.quantity("span", predictor_.defined() ? z : reshape(z, {span_.size(0)}));
  if (options_.after_softmax) {
    plan.windows.push_back(pointwise(SpanWindow{options_.ramp}, PerQuery{reach}));
    return;
  }
  plan.biases.push_back(pointwise(SpanBias{options_.ramp}, PerQuery{reach}));
  // the largest distance below the reach, ⌈reach⌉ − 1
  const Tensor below = map(Floor{}, map(Affine{-1, 0}, reach.value())), farthest = map(Affine{-1, -1}, below);
  const Tensor& query = in.query_positions.value();
  add_range(plan, in, keys_between(map(Subtract{}, query, farthest), map(Add{}, query, farthest)));
}

}  // namespace fovea
