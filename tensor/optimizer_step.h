/// Updates of many parameters in one parallel pass, and the norm of many gradients.
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
  double learning_rate = 0.1, momentum = 0, weight_decay = 0;
};

/// g ← scale · gradient + weight_decay · p; velocity ← momentum · velocity + g; p ← p − learning_rate · velocity.
void sgd_step(std::span<SgdSlot> slots, const SgdOptions& options, double gradient_scale = 1);

struct AdamSlot {
  Tensor parameter, gradient;
  Tensor mean, square;  ///< running averages of g and g²; zeros before the first step
};

struct AdamOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool decoupled = false;  ///< AdamW: the decay acts on the parameter, not through the averages
};

/// Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019), with bias correction; `step` counts from 1.
/// p ← p − learning_rate · m̂ / (√v̂ + ε), before which AdamW multiplies p by 1 − learning_rate · weight_decay.
void adam_step(std::span<AdamSlot> slots, const AdamOptions& options, std::int64_t step, double gradient_scale = 1);

/// √Σ x² over all elements of all tensors, f32 or f64, added up in f64 and in an order that does not depend on the
/// number of threads. 0 for no tensors.
double global_norm(std::span<const Tensor> tensors);

}  // namespace fovea
