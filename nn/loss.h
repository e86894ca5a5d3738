/// Losses summed or averaged over a batch.
///
/// Targets may lie on the CPU while the model is on a GPU: they are copied to it, and the host does not wait. Prefer
/// that to targets on the GPU, because the host can then see which targets are ignored, and leaves their rows out.
#pragma once
#include "autograd/operations.h"

namespace fovea {

/// Whether the loss of a batch is the mean or the sum of the losses of its targets. Training with micro-batches needs
/// sums, because it divides only once, by the number of targets in all micro-batches.
enum class Total { mean, sum };

/// Returns the cross-entropy of softmax(logits) and the targets, summed or averaged over the targets that differ from
/// options.ignored. logits [..., V], targets [...], i32 or i64 → scalar. With label smoothing ε the loss of one target
/// is (1 − ε) · −log p_target + (ε / V) · Σ_v −log p_v, where v runs over all V classes (Szegedy et al. 2016, section
/// 7). Throws Error if a mean is wanted and all targets are ignored; with targets on a GPU, the mean is NaN then.
Variable cross_entropy_loss(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options = {},
                            Total total = Total::mean);

/// Returns the sum of the cross-entropies for logits = states · weight + bias, over the targets that differ from
/// options.ignored. states [..., n], weight [n, V], bias [V] or undefined, targets [...] → scalar. Computes the logits
/// of one block of rows at a time and skips rows whose target is ignored, so that the logits of all rows and their
/// gradient are never in memory as a whole. (In a small model they would take as much memory as everything else.) The
/// gradients are computed during the forward pass. `unsmoothed` gets the sum without label smoothing, an f64 scalar on
/// the device of the states, unless it is null.
Variable projected_cross_entropy(const Variable& states, const Variable& weight, const Variable& bias,
                                 const Tensor& targets, const CrossEntropyOptions& options = {},
                                 Tensor* unsmoothed = nullptr);

/// Returns the mean or sum of −t log σ(x) − (1 − t) log σ(−x) over all elements x of the logits and t of the targets.
/// Targets must be in [0, 1], which is not checked. Throws Error if logits and targets differ in shape.
Variable binary_cross_entropy_loss(const Variable& logits, const Tensor& targets, Total total = Total::mean);

}  // namespace fovea
