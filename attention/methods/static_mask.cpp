#include "attention/methods/static_mask.h"

#include <cmath>

#include "attention/methods/ranges.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

namespace {

/// The keys |i − j| ≤ sqrt(len) / 2 for each query; bounds [B or 1, 1, I].
KeyRange within_half_root(const AttentionContext& in) {
  const Tensor reach = map(Floor{}, map(Affine{0.5, 0}, map(Sqrt{}, in.length.value())));
  const Tensor& query = in.query_positions.value();
  return keys_between(map(Subtract{}, query, reach), map(Add{}, query, reach));
}

}  // namespace

void StaticMask::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("width", options.width, {"sqrt", "fixed"},
                 "sqrt: b = sqrt(len) / 2 (SMAN1); fixed: b = distance (SMAN2)");
  visitor.integer("distance", options.distance, 0, std::int64_t{1} << 31, "with width=fixed: b, in tokens");
}

void StaticMask::add_terms(const AttentionContext& in, Plan& plan) {
  const std::int64_t distance = options_.distance;
  KeyRange range = options_.width == Width::sqrt ? within_half_root(in) : keys_around(in, distance, distance);
  add_range(plan, in, range);
  const Shape pairs{in.query.size(0), 1, in.query.size(2), in.key.size(2)};
  plan.quantity("mask", [range, pairs, dtype = in.query.dtype()]() -> Variable {
    return allowed_pairs(range, pairs[3]).to(dtype).expand(pairs);
  });
}

}  // namespace fovea
