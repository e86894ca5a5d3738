#include "attention/methods/sparsemax.h"

#include <limits>

#include "autograd/node.h"
#include "tensor/comparison.h"

namespace fovea {

namespace {

Tensor scalar(double x, const Tensor& like) { return Tensor::full({1}, x, like.dtype(), like.device()); }

/// The number of true elements in each row of `chosen`, at least 1, in the type of `like`.
Tensor counted(const Tensor& chosen, const Tensor& like) {
  return map(Maximum{}, sum(chosen.to(like.dtype()), {-1}, true), scalar(1, like));
}

}  // namespace

Variable sparsemax(const Variable& logits, const Tensor& allow) {
  const Tensor &z = logits.value(), zero = scalar(0, z), nothing = scalar(-std::numeric_limits<double>::infinity(), z);
  const Tensor seen = allow.defined() ? where(allow, z, nothing) : z, largest = maximum_over(seen, {-1}, true);
  // subtract the row's maximum; a row without keys has the maximum -inf, and 0 is subtracted
  const Tensor shifted = map(Subtract{}, seen, where(equal(largest, nothing), zero, largest));
  // Find the support S: start with a set that contains S, and drop the elements that are not above its threshold until
  // none is dropped. No element of S is ever dropped, because the threshold of a set that contains S is at most τ.
  Tensor kept = greater(shifted, scalar(-1, z)), count = counted(kept, z), threshold;
  for (double dropped = 1; dropped > 0;) {
    const Tensor total = sum(where(kept, shifted, zero), {-1}, true);
    threshold = map(Divide{}, map(Affine{1, -1}, total), count);
    kept = logical_and(kept, greater(shifted, threshold));
    const Tensor before = std::exchange(count, counted(kept, z));
    dropped = maximum_over(map(Subtract{}, before, count)).item();
  }
  // the comparison is false for a NaN, which therefore stays
  Tensor weights = where(less_equal(shifted, threshold), zero, map(Subtract{}, shifted, threshold));
  if (allow.defined()) weights = where(allow, weights, zero);
  if (!should_record({&logits})) return weights;
  // The gradient for a constant S. Its operations are differentiable, which gives second derivatives.
  auto rule = [result = SavedTensor(weights, "result")](const Variable& g, const Node& node) {
    const Tensor &a = result.get(node), zero = scalar(0, a), support = greater(a, zero);
    const Variable mean = sum(where(support, g, zero), {-1}, true) / counted(support, a);
    return where(support, g - mean, zero);
  };
  return record("sparsemax", weights, {logits}, rule);
}

}  // namespace fovea
