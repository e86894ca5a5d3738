/// Numbers that summarise the attention weights of one call: four for each query, and one for each key.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// One number for each query, or for each key, from the logits z_ij and the weights w_ij of query i and key j:
///
///     maximum_i     max_j z_ij
///     key_i         the first key j with z_ij = maximum_i
///     logsumexp_i   log Σ_j exp(z_ij), with a term for each sink and each key without a token
///     entropy_i     −Σ_j p_ij log p_ij in nats, p_ij = |w_ij| / Σ_k |w_ik|
///     key_mass_j    Σ_i w_ij
///
/// j runs over the keys of tokens that query i sees, with a focus only over those in its window. The logits are those
/// that the softmax or another normaliser gets, after all biases and penalties; where a second map of weights is added
/// to the first, those of the first. The weights are those that multiply the values: after windows, masks and mixing of
/// heads, before dropout. Without windows and sinks, exp(maximum − logsumexp) is the largest weight of a softmax.
///
/// A query that sees no key has the maximum −inf, the key −1, the logsumexp −inf, unless it has a sink, and the entropy
/// 0. So has a query whose logits are all −inf. Heads that compute no logits, such as those of linear attention, have
/// the maximum −inf, the key −1 and the logsumexp −inf too, but the entropy and mass of their weights. A logit that is
/// NaN is never the maximum. On a GPU, states that are NaN make the output NaN, but not these numbers.
///
/// The fused and the blockwise engine have no matrix of all pairs for them, except for heads without logits; the
/// composed engine has.
///
/// The numbers are constants: no gradient flows through them. If each of the D dimensions of the values has weights of
/// its own, all shapes have D as an additional last dimension.
struct RowQuantities {
  Tensor maximum;    ///< [B, H, I]
  Tensor key;        ///< i32 [B, H, I]
  Tensor logsumexp;  ///< [B, H, I]
  Tensor entropy;    ///< [B, H, I]
  Tensor key_mass;   ///< [B, H, J]
};

}  // namespace fovea
