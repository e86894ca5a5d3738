#include "attention/methods/adaptive_span.h"

#include <cmath>

#include "attention/methods/ranges.h"

namespace fovea {

void AdaptiveSpan::visit(OptionVisitor& visitor, Options& options) {
  visitor.number("ramp", options.ramp, 1e-3, 1e6, "R, over which the mask falls from 1 to 0, in tokens");
  visitor.number("longest", options.longest, 1e-3, 1e9, "the bound of the spans z, in tokens");
  visitor.flag("after_softmax", options.after_softmax,
               "the mask multiplies the weights, which then sum to less than 1");
}

AdaptiveSpan::AdaptiveSpan(const MethodShape& shape, const Options& options)
    : options_(options), span_(parameter("span", {shape.heads}, Initializer::constant(-4))) {}

void AdaptiveSpan::add_terms(const AttentionContext& in, Plan& plan) {
  Variable z = sigmoid(span_) * options_.longest, reach = z + options_.ramp;
  plan.quantity("span", z);
  if (options_.after_softmax) {
    plan.windows.push_back(pointwise(SpanWindow{options_.ramp}, PerHead{reach}));
    return;
  }
  plan.biases.push_back(pointwise(SpanBias{options_.ramp}, PerHead{reach}));
  // the largest distance below the reach, ⌈reach⌉ − 1
  const Affine minus{-1, 0};
  const Tensor below = map(Floor{}, map(minus, reach.value())),
               farthest = map(Affine{-1, -1}, below).reshape({z.size(0), 1});
  const Tensor& query = in.query_positions.value();
  add_range(plan, in, keys_between(map(Subtract{}, query, farthest), map(Add{}, query, farthest)));
}

}  // namespace fovea
