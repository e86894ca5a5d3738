#include "attention/methods/t5_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace fovea {

std::int64_t t5_bucket(std::int64_t offset, bool causal, std::int64_t buckets, std::int64_t max_distance) {
  std::int64_t first = 0, distance = causal ? std::max<std::int64_t>(-offset, 0) : std::abs(offset);
  if (!causal) {
    buckets /= 2;
    if (offset > 0) first = buckets;
  }
  std::int64_t exact = buckets / 2;
  if (distance < exact) return first + distance;
  double fraction = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                    std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  // + 1e-9: rounding must not move the first distance of a bucket into the previous bucket
  auto step = static_cast<std::int64_t>(fraction * static_cast<double>(buckets - exact) + 1e-9);
  return first + std::min(exact + step, buckets - 1);
}

void BucketBias::visit(OptionVisitor& visitor, Options& options) {
  visitor.integer("buckets", options.buckets, 4, 65536, "number of buckets, both sides together");
  visitor.integer("max_distance", options.max_distance, 2, 65536,
                  "distances from here on share the last bucket, in tokens");
}

BucketBias::BucketBias(const MethodShape& shape, const Options& options) : options_(options) {
  require_far_buckets(shape.place == Place::decoder);
  bias_ = parameter("bias", {options.buckets, shape.heads},
                    Initializer::normal(1 / std::sqrt(static_cast<double>(shape.model_dim))));
}

void BucketBias::require_far_buckets(bool causal) const {
  require(options_.max_distance > options_.buckets / (causal ? 2 : 4),
          "t5: max_distance={} must be greater than {} of buckets={}{}", options_.max_distance,
          causal ? "half" : "a quarter", options_.buckets, causal ? " in causal attention" : "");
}

BucketBias::Buckets BucketBias::buckets(bool causal, Device device) const {
  const std::int64_t farthest = options_.max_distance;
  std::vector<std::int64_t> bucket;
  for (std::int64_t offset = -farthest; offset <= farthest; ++offset)
    bucket.push_back(t5_bucket(offset, causal, options_.buckets, farthest));
  return {Tensor::from(bucket, {2 * farthest + 1}).to(device), causal};
}

void BucketBias::add_terms(const AttentionContext& in, Plan& plan) {
  require_far_buckets(in.causal);
  const std::int64_t H = bias_.size(1), farthest = options_.max_distance, clip = std::min(in.farthest(), farthest);
  auto fits = [&](const Buckets& made) { return made.causal == in.causal && made.index.device() == bias_.device(); };
  const auto all = buckets_.get(fits, [&](const Buckets*) { return buckets(in.causal, bias_.device()); });
  const Tensor near = all->index.slice(0, farthest - clip, farthest + clip + 1);
  const Variable table = gather_rows(bias_, near);  // [2 clip + 1, H]
  plan.biases.push_back(pointwise(AddBias{}, PerOffset{reshape(transpose(table, 0, 1), {H, 1, 2 * clip + 1}), clip}));
}

}  // namespace fovea
