/// Losses summed or averaged over a batch.
#pragma once
#include "autograd/operations.h"

namespace fovea {

/// A batch's loss is the mean or the sum of the losses of its targets. Training with micro-batches needs sums: it
/// divides once, by the number of targets of all of them.
enum class Total { mean, sum };

/// Number of targets that are not `ignored`.
std::int64_t counted_targets(const Tensor& targets, std::int64_t ignored);

/// Cross-entropy of softmax(logits) and the targets, over the targets that are not options.ignored. logits [..., V],
/// targets [...], i32 or i64 → scalar. With label smoothing ε the loss of one target is
/// (1 − ε) · −log p_target + (ε / V) · Σ_v −log p_v, where v runs over all V classes (Szegedy et al. 2016, section 7).
/// Throws Error for a mean where all targets are ignored.
Variable cross_entropy_loss(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options = {},
                            Total total = Total::mean);

/// Sum of the cross-entropies with logits = states · weight + bias, over the targets that are not options.ignored.
/// states [..., n], weight [n, V], bias [V] or undefined, targets [...] → scalar. Works on one block of rows at a time
/// and skips ignored rows. The logits of all rows and their gradient, which in a small model take as much memory as
/// everything else, are never in memory as a whole. Gradients are computed in the forward pass.
Variable projected_cross_entropy(const Variable& states, const Variable& weight, const Variable& bias,
                                 const Tensor& targets, const CrossEntropyOptions& options = {});

/// −t log σ(x) − (1 − t) log σ(−x) over all elements x of the logits and t of the targets. The targets are in [0, 1]
/// and have the logits' shape; otherwise throws Error.
Variable binary_cross_entropy_loss(const Variable& logits, const Tensor& targets, Total total = Total::mean);

}  // namespace fovea
