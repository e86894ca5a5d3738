/// Layer normalisation (Ba et al. 2016) over the last dimension.
#pragma once
#include "tensor/formula/philox.h"
#include "tensor/tensor.h"

namespace fovea {

struct LayerNormResult {
  Tensor output;             ///< normalised rows times gain plus bias, [..., n]
  Tensor mean;               ///< mean of each row, f64 [...]
  Tensor inverse_deviation;  ///< 1 / sqrt(variance + epsilon) of each row, f64 [...]; the variance divides by n
};

/// Normalises each row of `x` [..., n]: (x − mean) · inverse_deviation · gain + bias. `x` is f32 or f64 with n ≥ 1;
/// `gain` and `bias` are [n], of the type of `x`. Rows of any finite elements are normalised, also where the squares of
/// the elements are too large or too small for their type. A row of equal elements gives the bias exactly.
LayerNormResult layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, double epsilon);

struct AddNormResult {
  LayerNormResult norm;
  Tensor sum;  ///< that was normalised, [..., n]
};

/// The sum of a residual connection and its layer norm, in one kernel: normalises residual + dropout(update + number).
/// `update` and `residual` are [..., n], alike; `number` is [...], of their type, one for each row, or undefined: 0.
/// `mask` has one row, which is the default of DropoutMask. The sum has the bits of dropout_add(), and the norm those
/// of layer_norm().
AddNormResult add_norm(const Tensor& update, const Tensor& residual, const Tensor& number, const DropoutMask& mask,
                       const Tensor& gain, const Tensor& bias, double epsilon);

struct LayerNormGradients {
  Tensor x;        ///< gradient with respect to x, [..., n]
  Tensor gain;     ///< gradient with respect to the gain, [n]
  Tensor bias;     ///< gradient with respect to the bias, [n]
  Tensor dropped;  ///< with a mask: dropout of the gradient with respect to x, [..., n]
};

/// The backward pass of layer_norm: returns the gradients with respect to x, gain and bias. `g` [..., n] is the
/// gradient with respect to the output; `mean` and `inverse_deviation` are members of the result of layer_norm. The
/// gradients of gain and bias are summed over the rows in an order that does not depend on the number of threads.
/// `added` [..., n], unless it is undefined, is added to the gradient with respect to x. With a `mask`, which has one
/// row, this is the backward pass of add_norm, and x is the sum.
LayerNormGradients layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gain, const Tensor& mean,
                                       const Tensor& inverse_deviation, const Tensor& added = {},
                                       const DropoutMask* mask = nullptr);

}  // namespace fovea
