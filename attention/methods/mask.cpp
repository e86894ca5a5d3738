#include "attention/methods/mask.h"

#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/requirements.h"

namespace fovea {

void MaskAttention::visit(OptionVisitor& visitor, Options& options) {
  visitor.flag("log_floor", options.log_floor,
               "add log max(M, 1e-10), as in the authors' code, so that no key is hidden");
}

namespace {

/// Throws Error unless all values are in [0, 1]; for a mask on a GPU, when the host next waits for it.
void require_unit_interval(const Tensor& mask) {
  auto number = [&](double x) { return constant_like(mask, x); };
  require_everywhere("man", "mask", logical_and(less_equal(number(0), mask), less_equal(mask, number(1))),
                     "must be in [0, 1]");
}

}  // namespace

void MaskAttention::add_terms(const AttentionContext& in, Plan& plan) {
  require(in.mask.defined(), "man: there is no mask; give one with the input, [B, H, I, J] with values in [0, 1]");
  const Tensor& mask = in.mask.value();
  require_unit_interval(mask);
  if (options_.log_floor) {
    plan.biases.push_back(pointwise(LogMaskBias{.smallest = 1e-10, .instead = 1e-10}, PerPair{in.mask}));
  } else {
    plan.biases.push_back(pointwise(LogMaskBias{}, PerPair{in.mask}));
    plan.masks.push_back({logical_not(less_equal(mask, constant_like(mask, 0)))});
  }
}

}  // namespace fovea
