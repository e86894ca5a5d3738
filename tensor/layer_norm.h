/// Layer normalisation (Ba et al. 2016) over the last dimension.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

struct LayerNormResult {
  Tensor output;             ///< [..., n]
  Tensor mean;               ///< [...]
  Tensor inverse_deviation;  ///< [...], 1 / sqrt(variance + epsilon); the variance divides by n
};

/// (x − mean) · inverse_deviation · gain + bias. x [..., n] f32 or f64, n ≥ 1; gain and bias [n] of x's type.
LayerNormResult layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, double epsilon);

struct LayerNormGradients {
  Tensor x;     ///< [..., n]
  Tensor gain;  ///< [n]
  Tensor bias;  ///< [n]
};

/// The adjoint: `g` [..., n] is the gradient with respect to the output; mean and inverse_deviation are the forward
/// pass's. Gradients of gain and bias add up in an order that does not depend on the number of threads.
LayerNormGradients layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gain, const Tensor& mean,
                                       const Tensor& inverse_deviation);

}  // namespace fovea
