/// How far attention looks: what a decoder scores, and what falls near the query.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace fovea {

/// How many encoder states each live hypothesis scored in one step of decoding; the mean where heads differ.
using StepSpans = std::vector<double>;

/// Shu & Nakayama 2017: the mean over a step's hypotheses, then over the sentence's steps. In this order global
/// attention has the sentence's length.
double vision_span(std::span<const StepSpans> steps);

struct VisionSpan {
  double average = 0;  ///< of `vision_span` over the sentences: what the paper prints as the average window
  double pooled = 0;   ///< of every hypothesis of every step of every sentence, all the same
};

VisionSpan vision_span(std::span<const std::vector<StepSpans>> sentences);

/// Fan et al. 2021, eq. 13: how much of a query's attention lies on keys at most `distance` away, in percent; the mean
/// over heads and queries of each sentence. `weights` is [B, H, n, n], `lengths` says how many of the n are real. The
/// corpus's is the mean over the sentences.
std::vector<double> attention_within(const Tensor& weights, std::span<const std::int64_t> lengths,
                                     std::int64_t distance);

/// Likewise of cross-attention, which has no place of its own: how much of each query's attention lies on keys at most
/// `distance` away from the one that has the most. `weights` is [B, H, I, J]; the first `queries` of the I and `keys`
/// of the J are real.
std::vector<double> attention_near_peak(const Tensor& weights, std::span<const std::int64_t> queries,
                                        std::span<const std::int64_t> keys, std::int64_t distance);

}  // namespace fovea
