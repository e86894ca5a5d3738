#include "attention/methods/ranges.h"

#include <algorithm>

#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

namespace {

constexpr double far = 1e9;  // beyond the position of any key

/// ⌊x⌋, at least −far and at most far; far where x is NaN.
Tensor rounded_down(const Tensor& x) {
  auto number = [&](double value) { return constant_like(x, value); };
  const Tensor known = where(less_equal(x, x), x, number(far));  // a comparison with NaN is false
  return map(Floor{}, map(Minimum{}, map(Maximum{}, known, number(-far)), number(far)));
}

}  // namespace

KeyRange keys_between(const Tensor& low, const Tensor& high) {
  // first = ⌈low⌉ = −⌊−low⌋, end = ⌊high⌋ + 1 = ⌊high + 1⌋
  const Affine minus{-1, 0};
  return {map(minus, rounded_down(map(minus, low))).to(DType::i32),
          rounded_down(map(Affine{1, 1}, high)).to(DType::i32)};
}

KeyRange keys_around(const AttentionContext& in, std::int64_t left, std::int64_t right) {
  const std::int64_t I = in.query.size(2), farthest = in.farthest() + 1;
  auto bound = [&](std::int64_t shift) {
    return Tensor::arange(I, DType::i32, in.query.device(), in.query_offset + shift).reshape({1, 1, I});
  };
  return {bound(-std::min(left, farthest)), bound(std::min(right, farthest) + 1)};
}

void add_range(Plan& plan, const AttentionContext& in, const KeyRange& range) {
  plan.ranges.push_back({range});
  plan.quantity("range", [range, in]() -> Variable {
    const auto keys = static_cast<double>(in.key.size(2));
    auto exact = [&](const Tensor& bound, double otherwise) {
      return bound.defined() ? bound.to(DType::f64) : Tensor::full({1, 1, 1}, otherwise, DType::f64, in.query.device());
    };
    Variable first = map(Maximum{}, exact(range.first, 0), exact(in.visible.first, 0));
    Variable last = map(Affine{1, -1}, map(Minimum{}, exact(range.end, keys), exact(in.visible.end, keys)));
    Shape shape = broadcast("range", broadcast("range", first.shape(), last.shape()), {in.query.size(0), 1, 1});
    return concat({unsqueeze(broadcast_to(first, shape), -1), unsqueeze(broadcast_to(last, shape), -1)}, -1);
  });
}

}  // namespace fovea
