/// Cross-entropy of rows of logits and its gradient, with label smoothing and a target value that is ignored.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

struct CrossEntropyResult {
  Tensor loss;  ///< the loss of each row, [N], of the logits' type; 0 where the target is `ignored`
  /// log Σ_v exp(z_v) of each row, [N], for the backward pass. It is f64 because in f32 the rounding error of a large
  /// value would be too large for exp(z_v − log_sum_exp).
  Tensor log_sum_exp;
};

/// Returns (1 − ε) nll + (ε / V) Σ_v −log p_v for each row, where p is the softmax of the row and nll = −log p_target
/// (Szegedy et al. 2016; the sum runs over all classes v, including the target). `logits` is [N, V], f32 or f64;
/// `targets` is [N], i32 or i64, each in 0 ... V − 1 or equal to `ignored`; ε = `label_smoothing` is in [0, 1]. Throws
/// Error naming the first row whose target is out of range and not `ignored`.
CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets, double label_smoothing,
                                 std::int64_t ignored);

/// Returns the gradient with respect to the logits, [N, V]: g_row (p_v − (1 − ε) [v = target] − ε / V), and 0 in rows
/// whose target is `ignored`. `g` [N] is the gradient with respect to the loss, and `log_sum_exp` the member of the
/// result of cross_entropy.
Tensor cross_entropy_backward(const Tensor& g, const Tensor& logits, const Tensor& targets, const Tensor& log_sum_exp,
                              double label_smoothing, std::int64_t ignored);

}  // namespace fovea
