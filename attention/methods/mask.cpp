#include "attention/methods/mask.h"

#include "tensor/comparison.h"
#include "tensor/reduce.h"

namespace fovea {

void MaskAttention::visit(OptionVisitor& visitor, Options& options) {
  visitor.flag("log_floor", options.log_floor,
               "add log max(M, 1e-10), as in the authors' code, so that no key is hidden");
}

namespace {

/// Throws Error unless all values are in [0, 1]. A mask on a GPU is not checked, because the host would have to wait.
void require_unit_interval(const Tensor& mask) {
  if (mask.device() != Device::cpu) return;
  const double largest = maximum_over(mask).item(), smallest = -maximum_over(map(Affine{-1, 0}, mask)).item();
  require(0 <= smallest && largest <= 1, "man: the mask has values from {} to {}; they must be in [0, 1]", smallest,
          largest);
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
    plan.masks.push_back({logical_not(less_equal(mask, Tensor::zeros({1}, mask.dtype(), mask.device())))});
  }
}

}  // namespace fovea
