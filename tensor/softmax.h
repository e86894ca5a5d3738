/// Softmax over the last dimension, with masks, and what its gradients need.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// exp(z_j) / Σ_k exp(z_k) over the last dimension of logits [..., J], f32 or f64. `allow`, bool or u8, broadcasts to
/// the logits; undefined allows everything. What is not allowed, or is −inf, gets exactly 0, whatever else it holds; a
/// row with nothing allowed is all 0. NaN among the allowed makes its row's allowed weights NaN.
Tensor softmax(const Tensor& logits, const Tensor& allow = {});

/// y · (g − Σ_k y_k g_k), where y [..., J] is the softmax and g the gradient with respect to it. Exactly 0 where y is.
Tensor softmax_backward(const Tensor& y, const Tensor& g);

/// z_j − log Σ_k exp(z_k) over the last dimension. A row of −inf stays −inf.
Tensor log_softmax(const Tensor& logits);

/// g − exp(y) Σ_k g_k, where y [..., J] is the logarithm of the softmax and g the gradient with respect to it.
Tensor log_softmax_backward(const Tensor& y, const Tensor& g);

/// log Σ_k exp(z_k) over what is allowed: [..., J] → [...]. A row with nothing allowed gets +inf, not −inf: exp(z −
/// lse) is then 0 without a branch, and so is every gradient that is computed from it.
Tensor log_sum_exp(const Tensor& logits, const Tensor& allow = {});

}  // namespace fovea
