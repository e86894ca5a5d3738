/// How far attention looks: the number of keys that a decoder scores, and the share of the weights near the query.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace fovea {

/// The number of encoder states that each live hypothesis scored in one step of decoding, averaged over heads.
using StepSpans = std::vector<double>;

/// The vision span of one sentence, Shu & Nakayama 2017: the mean over the hypotheses of each step, then over the
/// steps. For global attention this is the length of the sentence.
double vision_span(std::span<const StepSpans> steps);

struct VisionSpan {
  double average = 0;  ///< mean over the sentences, which the paper calls the average window
  double pooled = 0;   ///< mean over all hypotheses of all steps of all sentences
};

VisionSpan vision_span(std::span<const std::vector<StepSpans>> sentences);

/// Fan et al. 2021, eq. 13: the percentage of a query's attention weights on keys at most `distance` away from the
/// query. Returns the mean over heads and queries of each sentence. `weights` is [B, H, n, n]; the first lengths[b] of
/// the n tokens of sentence b are real.
std::vector<double> attention_within(const Tensor& weights, std::span<const std::int64_t> lengths,
                                     std::int64_t distance);

/// The same for cross-attention, where a query has no position among the keys: the percentage of the weights on keys at
/// most `distance` away from the key with the largest weight. `weights` is [B, H, I, J]; the first queries[b] of the I
/// queries and keys[b] of the J keys are real.
std::vector<double> attention_near_peak(const Tensor& weights, std::span<const std::int64_t> queries,
                                        std::span<const std::int64_t> keys, std::int64_t distance);

}  // namespace fovea
