#include "attention/methods/alibi.h"

#include <cmath>

namespace fovea {

void LinearBiases::add_terms(const AttentionContext& in, Plan& plan) {
  std::vector<double> slopes;
  for (int h = 1; h <= heads_; ++h) slopes.push_back(std::exp2(-8.0 * h / heads_));
  Variable slope = Tensor::from(slopes, {heads_}).to(in.query.dtype()).to(in.query.device());
  plan.biases.push_back(pointwise(DistanceBias{}, PerHead{slope}));
  plan.quantity("slope", slope);
}

}  // namespace fovea
