/// Relative position buckets: a learned bias for each bucket of relative positions and each head.
/// Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", §2.1.
///
///   z_ij = s_ij + b_{bucket(j − i), h}
///
/// Small distances have a bucket each. The width of further buckets grows exponentially up to `max_distance`; all
/// larger distances share the last bucket. In causal attention all buckets are for keys j ≤ i; otherwise half of them
/// are for j ≤ i, half for j > i. Each layer has its own table [buckets, H]; in T5 all layers share one. The score s
/// has the factor 1 / sqrt(D); T5 has no factor and scales the initial values instead.
#pragma once
#include "attention/method.h"
#include "nn/cached_value.h"

namespace fovea {

/// The bucket, 0 to buckets − 1, of the relative position offset = j − i, in tokens. In causal attention positive
/// offsets have the bucket of offset 0.
std::int64_t t5_bucket(std::int64_t offset, bool causal, std::int64_t buckets, std::int64_t max_distance);

class BucketBias : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t buckets = 32;        ///< of both sides together
    std::int64_t max_distance = 128;  ///< in tokens; distances from here on share the last bucket
  };
  static constexpr MethodCard card = {
      "t5", "a learned bias for each bucket of relative positions", "Raffel et al. 2020, section 2.1",
      "z_ij = s_ij + bias[bucket, h]; N buckets: all of them for causal attention, half for each side otherwise\n"
      "n = |j - i| < e = N / 2: bucket n; else min(e + floor(log(n / e) / log(max_distance / e) (N - e)), N - 1)\n"
      "for keys after i, N more (the second half of the table)"};
  static void visit(OptionVisitor& visitor, Options& options);

  BucketBias(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  /// Throws Error unless max_distance is greater than the number of distances with a bucket of their own.
  void require_far_buckets(bool causal) const;

  /// The buckets of the offsets −max_distance, ..., max_distance, on a device.
  struct Buckets {
    Tensor index;  ///< i64 [2 max_distance + 1]
    bool causal;
  };
  Buckets buckets(bool causal, Device device) const;

  Options options_;
  Variable bias_;  // [buckets, H]
  CachedValue<Buckets> buckets_;
};

}  // namespace fovea
