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

void AdaptiveSpan::add_terms(const AttentionContext& in, Terms& terms) {
  Variable z = sigmoid(span_) * options_.longest, reach = z + options_.ramp;
  terms.quantity("span", z);
  if (options_.after_softmax) {
    terms.windows.push_back(pointwise(SpanWindow{options_.ramp}, PerHead{reach}));
    return;
  }
  terms.biases.push_back(pointwise(SpanBias{options_.ramp}, PerHead{reach}));
  std::vector<std::int64_t> farthest;  // the largest distance below the reach
  for (double r : reach.value().to_vector<double>()) farthest.push_back(static_cast<std::int64_t>(std::ceil(r)) - 1);
  add_range(terms, in, keys_around(in, 1, z.size(0), [&](std::int64_t, std::int64_t h, std::int64_t) {
              return std::pair(farthest[static_cast<std::size_t>(h)], farthest[static_cast<std::size_t>(h)]);
            }));
}

}  // namespace fovea
