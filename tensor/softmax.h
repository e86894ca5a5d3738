/// Softmax, log-softmax and log-sum-exp over the last dimension, with masks, and the backward passes of the softmaxes.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// Returns the weights exp(z_j) / Σ_k exp(z_k) over the last dimension of the logits z, [..., J], f32 or f64. `allow`,
/// bool or u8, is the mask and broadcasts to the logits; an undefined mask allows all elements. An element that is not
/// allowed (even if it is NaN) or is −inf gets weight exactly 0, and a row without allowed elements is all 0. If an
/// allowed element is NaN, all allowed elements of its row get NaN.
Tensor softmax(const Tensor& logits, const Tensor& allow = {});

/// Returns the weights of sparsemax (Martins and Astudillo 2016) over the last dimension: the point of the probability
/// simplex that is nearest to the allowed logits, which often has exact zeros. `allow` is as in softmax(); forbidden
/// elements get 0, and so does a row without allowed elements.
Tensor sparsemax(const Tensor& logits, const Tensor& allow = {});

/// Returns the gradient with respect to the logits, y · (g − Σ_k y_k g_k), where `y` [..., J] is the result of softmax
/// and `g` the gradient with respect to `y`. It is exactly 0 where `y` is 0.
Tensor softmax_backward(const Tensor& y, const Tensor& g);

/// Returns z_j − log Σ_k exp(z_k) over the last dimension of the logits z. If all logits of a row are −inf, the result
/// is −inf too.
Tensor log_softmax(const Tensor& logits);

/// Returns the gradient with respect to the logits, g − exp(y) Σ_k g_k, where `y` [..., J] is the result of log_softmax
/// and `g` the gradient with respect to `y`.
Tensor log_softmax_backward(const Tensor& y, const Tensor& g);

/// Returns log Σ_k exp(z_k) over the allowed elements of each row of the logits z, [..., J] → [...]. A row without
/// allowed elements gets +inf rather than −inf, because exp(z − log_sum_exp), and gradients computed from it, are then
/// 0 without a branch.
Tensor log_sum_exp(const Tensor& logits, const Tensor& allow = {});

}  // namespace fovea
