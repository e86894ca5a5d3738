#include "attention/methods/sparsemax.h"

#include "autograd/node.h"
#include "autograd/operations/softmax.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"
#include "tensor/reduce.h"

namespace fovea {

namespace {

/// The number of true elements in each row of `chosen`, at least 1, in the type of `like`.
Tensor counted(const Tensor& chosen, const Tensor& like) {
  return map(Maximum{}, sum(chosen.to(like.dtype()), {-1}, true), constant_like(like, 1));
}

}  // namespace

Variable sparsemax(const Variable& logits, const Tensor& allow) {
  const Tensor weights = sparsemax(logits.value(), allow);
  if (!should_record({&logits})) return weights;
  // The gradient for a constant S. Its operations are differentiable, which gives second derivatives.
  auto rule = [result = SavedTensor(weights, "result")](const Variable& g, const Node& node) {
    const Tensor &a = result.get(node), zero = constant_like(a, 0), support = greater(a, zero);
    const Variable mean = sum(where(support, g, zero), {-1}, true) / counted(support, a);
    return where(support, g - mean, zero);
  };
  return record("sparsemax", weights, {logits}, rule);
}

}  // namespace fovea
