/// The steps of optimizers (SGD, Adam, AdamW) on lists of parameters, the joint norm of a list of gradients, and the
/// scale that clips it. The norm and the scale are tensors on the device of the gradients, so that the host need not
/// wait for them between the backward pass and the step.
///
/// A slot holds one parameter, its gradient and the optimizer's state for it. Parameters are f32 or f64 and dense, that
/// is, contiguous in some order of their dimensions. The state tensors have the shape, type and layout of the parameter
/// (Tensor::empty_like makes such tensors); the gradient has its shape and type, but any strides. Parameters and state
/// change in place; no two parameters may share memory, and no gradient that of another parameter. Gradients are
/// multiplied by `gradient_scale` as they are read, so clipping needs no extra pass over them; it is f64 [] on their
/// device, or undefined, which stands for 1.
#pragma once
#include <span>

#include "tensor/tensor.h"

namespace fovea {

struct SgdSlot {
  Tensor parameter, gradient;
  Tensor velocity;  ///< zeros before the first step; may be undefined if the momentum is 0
};

struct SgdOptions {
  double momentum = 0, weight_decay = 0;
};

/// One step of stochastic gradient descent with learning rate `rate`, for each parameter p:
/// g ← gradient_scale · gradient + weight_decay · p; velocity ← momentum · velocity + g; p ← p − rate · velocity.
void sgd_step(std::span<SgdSlot> slots, const SgdOptions& options, double rate, const Tensor& gradient_scale = {});

struct AdamSlot {
  Tensor parameter, gradient;
  Tensor mean, square;  ///< running averages of g and g²; zeros before the first step
};

/// The defaults are those of Vaswani et al. 2017, section 5.3. Kingma and Ba recommend beta2 = 0.999, epsilon = 1e-8.
struct AdamOptions {
  double beta1 = 0.9;     ///< decay of the running average of g, in [0, 1)
  double beta2 = 0.98;    ///< decay of the running average of g², in [0, 1)
  double epsilon = 1e-9;  ///< added to √v̂
  double weight_decay = 0;
  /// true is AdamW: the weight decay multiplies the parameter. false: weight_decay · p is added to the gradient.
  bool decoupled = false;
};

/// One step of Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019) with learning rate `rate`, for each
/// parameter p: p ← p − rate · m̂ / (√v̂ + ε), where m̂ and v̂ are `mean` and `square` after bias correction. AdamW
/// first multiplies p by 1 − rate · weight_decay. `step` counts from 1; throws Error for a step below 1.
void adam_step(std::span<AdamSlot> slots, const AdamOptions& options, double rate, std::int64_t step,
               const Tensor& gradient_scale = {});

/// Returns √Σ x² over all elements of all tensors, which are f32 or f64 and on one device, as an f64 scalar [] on that
/// device; the host does not wait for it. The sum is computed in f64, in an order that does not depend on the number of
/// threads. Returns 0, on the CPU, for an empty list.
Tensor global_norm(std::span<const Tensor> tensors);

/// Returns the factor for gradients that are sums over `count` items, such as tokens, and have the joint norm `norm`:
/// it makes them means, and clips the norm of the means to `max_norm`. That is min(1, max_norm / (norm / count)) /
/// count, an f64 scalar on the norm's device, which the host does not wait for. A `max_norm` of 0 turns clipping off. A
/// norm that is not finite is not clipped either; the caller should check for it and skip the update.
Tensor clip_scale(const Tensor& norm, double max_norm, double count = 1);

}  // namespace fovea
