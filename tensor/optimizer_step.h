/// Updates of many parameters, and the norm of many gradients.
///
/// Parameters are f32 or f64 and dense (contiguous in some order of their dimensions); what belongs to one has its
/// shape, type and layout (Tensor::empty_like), except the gradient, whose layout is free. Parameters and their state
/// change in place; no two parameters may share memory. Gradients are multiplied by `gradient_scale` as they are read:
/// that is how clipping is free.
#pragma once
#include <span>

#include "tensor/tensor.h"

namespace fovea {

struct SgdSlot {
  Tensor parameter, gradient;
  Tensor velocity;  ///< undefined where there is no momentum; zeros before the first step
};

struct SgdOptions {
  double momentum = 0, weight_decay = 0;
};

/// g ← gradient_scale · gradient + weight_decay · p; velocity ← momentum · velocity + g; p ← p − rate · velocity.
void sgd_step(std::span<SgdSlot> slots, const SgdOptions& options, double rate, double gradient_scale = 1);

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
  bool decoupled = false;  ///< AdamW: the decay multiplies the parameter; otherwise it is added to the gradient
};

/// Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019), with bias correction; `step` counts from 1.
/// p ← p − rate · m̂ / (√v̂ + ε), before which AdamW multiplies p by 1 − rate · weight_decay. Throws Error for a step
/// below 1.
void adam_step(std::span<AdamSlot> slots, const AdamOptions& options, double rate, std::int64_t step,
               double gradient_scale = 1);

/// √Σ x² over all elements of all tensors, f32 or f64, added up in f64 and in an order that does not depend on the
/// number of threads. 0 for no tensors.
double global_norm(std::span<const Tensor> tensors);

}  // namespace fovea
