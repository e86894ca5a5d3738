#include "attention/methods/alibi.h"

#include <bit>
#include <cmath>

namespace fovea {

namespace {

std::vector<double> slopes_of(int heads, LinearBiases::Slopes kind) {
  const auto power = static_cast<int>(std::bit_floor(static_cast<unsigned>(heads)));
  const int regular = kind == LinearBiases::Slopes::published ? power : heads;
  std::vector<double> slopes;
  for (int h = 1; h <= regular; ++h) slopes.push_back(std::exp2(-8.0 * h / regular));
  for (int h = 1; std::ssize(slopes) < heads; h += 2) slopes.push_back(std::exp2(-8.0 * h / (2 * power)));
  return slopes;
}

}  // namespace

void LinearBiases::add_terms(const AttentionContext& in, Plan& plan) {
  auto fits = [&](const Tensor& slopes) {
    return slopes.dtype() == in.query.dtype() && slopes.device() == in.query.device();
  };
  const Variable slope = *slopes_.get(fits, [&](const Tensor*) {
    return Tensor::from(slopes_of(heads_, options_.slopes), {heads_}).to(in.query.dtype()).to(in.query.device());
  });
  plan.biases.push_back(pointwise(DistanceBias{}, PerHead{slope}));
  plan.quantity("slope", slope);
}

}  // namespace fovea
