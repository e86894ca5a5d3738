/// Losses over a batch.
#pragma once
#include "autograd/operations.h"

namespace fovea {

/// Of the losses that count: their mean, or their sum (micro-batches are summed and divided once by all their tokens).
enum class Total { mean, sum };

/// The number of targets that are not `ignored`.
std::int64_t counted_targets(const Tensor& targets, std::int64_t ignored);

/// Cross-entropy of logits [..., V] and targets [...] (i32 or i64), over the targets that are not ignored. With label
/// smoothing ε: (1 − ε) · nll + (ε / V) · Σ_v −log p_v, v over all classes. Throws Error for a mean over no targets.
Variable cross_entropy_loss(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options = {},
                            Total total = Total::mean);

/// Σ of the cross-entropy of states · weight + bias, over the targets that are not ignored. states [..., n], weight
/// [n, V], bias [V] or undefined, targets [...]. Computed for a block of rows at a time, forward and backward, and for
/// no row that is ignored: logits and their gradient, which are as large as all else that a small model keeps, are
/// never there as a whole, and stay in the cache.
Variable projected_cross_entropy(const Variable& states, const Variable& weight, const Variable& bias,
                                 const Tensor& targets, const CrossEntropyOptions& options = {});

/// −t log σ(x) − (1 − t) log σ(−x) over all elements; targets of the logits' shape, in [0, 1].
Variable binary_cross_entropy_loss(const Variable& logits, const Tensor& targets, Total total = Total::mean);

}  // namespace fovea
