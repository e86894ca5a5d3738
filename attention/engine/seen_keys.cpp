#include "attention/engine/seen_keys.h"

#include "attention/engine/lowered.h"

namespace fovea {

HeadRange common_heads(HeadRange a, HeadRange b) {
  const std::int64_t first = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
  return {first, std::max<std::int64_t>(end - first, 0)};
}

SeenKeys::Bound::Bound(const Tensor& x, std::int64_t otherwise) : otherwise(otherwise) {
  if (!x.defined()) return;
  tensor = with_rank(x, 3);
  numbers = tensor.data<std::int32_t>();
  for (int d = 0; d < 3; ++d) strides[d] = tensor.size(d) > 1 ? tensor.strides()[d] : 0;
}

SeenKeys::Range SeenKeys::range_of(const HeadKeys& part, const AttentionContext& in) {
  const HeadRange heads = resolved(part.heads, in.query.size(1));
  return {{part.keys.first, 0}, {part.keys.end, in.key.size(2)}, heads};
}

SeenKeys::SeenKeys(const AttentionContext& in, const Plan& plan)
    : keys_(in.key.size(2)), visible_(range_of({in.visible}, in)) {
  for (const HeadKeys& part : plan.ranges) ranges_.push_back(range_of(part, in));
  for (const HeadKeys& part : plan.always) always_.push_back(range_of(part, in));
}

Interval SeenKeys::interval(std::size_t k, Interval visible, std::int64_t b, std::int64_t h, std::int64_t i) const {
  if (k > 0) {
    const Range& range = always_[k - 1];
    return range.acts_on(h) ? visible.within(row().within(range.at(b, h, i))) : Interval{0, 0};
  }
  for (const Range& range : ranges_)
    if (range.acts_on(h)) visible = visible.within(row().within(range.at(b, h, i)));
  return visible;
}

bool SeenKeys::varies(int dimension, HeadRange heads) const {
  auto does = [&](const Range& range) {
    const std::int64_t common = common_heads(range.heads, heads).count;
    if (common == 0) return false;
    return (dimension == 1 && common < heads.count) || range.first.strides[dimension] != 0 ||
           range.end.strides[dimension] != 0;
  };
  return does(visible_) || std::any_of(ranges_.begin(), ranges_.end(), does) ||
         std::any_of(always_.begin(), always_.end(), does);
}

}  // namespace fovea
