/// Cross-entropy of rows of logits, with label smoothing and an ignored class.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

struct CrossEntropyResult {
  Tensor loss;         ///< [N], of the logits' type; 0 where the target is the ignored one
  Tensor log_sum_exp;  ///< [N] f64, for the backward pass: in f32, large logits would cost the weights their digits
};

/// (1 − ε) nll + (ε / V) Σ_v −log p_v per row, with nll = −log p_target and p the softmax of the row (Szegedy et al.
/// 2016; v over all classes, the target's too). logits [N, V] f32 or f64, targets [N] i32 or i64 in 0 ... V − 1 or
/// `ignored`; ε = label_smoothing in [0, 1]. Throws naming the first row whose target is neither.
CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets, double label_smoothing,
                                 std::int64_t ignored);

/// g_row (p_v − (1 − ε) [v = target] − ε / V), and 0 in ignored rows: [N, V]. g [N] is the gradient with respect to the
/// loss, log_sum_exp the forward pass's.
Tensor cross_entropy_backward(const Tensor& g, const Tensor& logits, const Tensor& targets, const Tensor& log_sum_exp,
                              double label_smoothing, std::int64_t ignored);

}  // namespace fovea
