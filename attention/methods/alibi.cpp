#include "attention/methods/alibi.h"

#include <cmath>

namespace fovea {

void LinearBiases::add_terms(const AttentionContext& in, Plan& plan) {
  auto fits = [&](const Tensor& slopes) {
    return slopes.dtype() == in.query.dtype() && slopes.device() == in.query.device();
  };
  const Variable slope = *slopes_.get(fits, [&](const Tensor*) {
    std::vector<double> slopes;
    for (int h = 1; h <= heads_; ++h) slopes.push_back(std::exp2(-8.0 * h / heads_));
    return Tensor::from(slopes, {heads_}).to(in.query.dtype()).to(in.query.device());
  });
  plan.biases.push_back(pointwise(DistanceBias{}, PerHead{slope}));
  plan.quantity("slope", slope);
}

}  // namespace fovea
