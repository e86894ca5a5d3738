#include "attention/methods/fine_grained.h"

namespace fovea {

FineGrained::FineGrained(const MethodShape& shape, const Options& options)
    : HiddenScoring(shape, options),
      dimensions_(
          parameter("dimensions", shape_of_heads(shape, {width(), shape.value_dim}), Initializer::xavier_uniform())) {}

void FineGrained::add_terms(const AttentionContext& in, Plan& plan) {
  require(in.value.size(-1) == dimensions_.size(-1), "fine_grained: values are {} wide, expected {}", in.value.size(-1),
          dimensions_.size(-1));
  plan.scores.push_back(score(in, Score::Form::hidden_by_dimension, dimensions_));
}

}  // namespace fovea
