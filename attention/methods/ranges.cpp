#include "attention/methods/ranges.h"

#include "tensor/map.h"

namespace fovea {

void add_range(Terms& terms, const AttentionContext& in, const KeyRange& range) {
  terms.ranges.push_back(range);
  terms.quantity("range", [range, visible = in.visible, B = in.query.size(0)]() -> Variable {
    auto exact = [](const Tensor& bound) { return bound.to(DType::f64); };
    Variable first = map(Maximum{}, exact(range.first), exact(visible.first));
    Variable last = map(Affine{1, -1}, map(Minimum{}, exact(range.end), exact(visible.end)));
    Shape shape = broadcast("range", broadcast("range", first.shape(), last.shape()), {B, 1, 1});
    return concat({unsqueeze(broadcast_to(first, shape), -1), unsqueeze(broadcast_to(last, shape), -1)}, -1);
  });
}

}  // namespace fovea
