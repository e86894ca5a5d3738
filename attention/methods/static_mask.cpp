#include "attention/methods/static_mask.h"

#include <cmath>

#include "attention/methods/ranges.h"

namespace fovea {

namespace {

/// |i − j| ≤ sqrt(len) / 2 for each query: [B or 1, 1, I].
KeyRange within_half_root(const AttentionContext& in) {
  const Tensor& end = in.visible.end;  // [B or 1, 1, I or 1], the number of visible keys
  std::vector<std::int64_t> length = end.to_vector<std::int64_t>();
  std::int64_t per_sentence = end.size(2);
  return keys_around(in, end.size(0), 1, [&](std::int64_t b, std::int64_t, std::int64_t i) {
    auto L = static_cast<double>(length[static_cast<std::size_t>(b * per_sentence + (per_sentence > 1 ? i : 0))]);
    auto reach = static_cast<std::int64_t>(std::sqrt(L) / 2);
    return std::pair(reach, reach);
  });
}

}  // namespace

void StaticMask::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("width", options.width, {"sqrt", "fixed"}, "b = sqrt(len) / 2 (SMAN1) or b = distance (SMAN2)");
  visitor.integer("distance", options.distance, 0, std::int64_t{1} << 31, "b of width=fixed, in tokens");
}

void StaticMask::add_terms(const AttentionContext& in, Terms& terms) {
  std::pair fixed(options_.distance, options_.distance);
  KeyRange range =
      options_.width == Width::sqrt ? within_half_root(in) : keys_around(in, 1, 1, [&](auto...) { return fixed; });
  add_range(terms, in, range);
  Shape pairs{in.query.size(0), 1, in.query.size(2), in.key.size(2)};
  terms.quantity("mask", [range, pairs, dtype = in.query.dtype()]() -> Variable {
    Tensor mask = allowed_pairs(range, pairs[3]);
    return mask.defined() ? mask.to(dtype).expand(pairs) : Tensor::full(pairs, 1, dtype);
  });
}

}  // namespace fovea
