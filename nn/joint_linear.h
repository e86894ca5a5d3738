/// Several linear layers applied to one input in one operation.
#pragma once
#include <vector>

#include "nn/linear.h"

namespace fovea {

/// Returns layer_k(x) = x W_k + b_k for each layer k: x [..., in] → [..., out_k]. If all layers have biases, the
/// backward pass adds up their contributions to the gradient of x inside the matrix products. If x has many rows, the
/// CPU also multiplies it by the concatenation of all W_k, and the results are views of the columns of this product. A
/// GPU does the same where the W_k are stored side by side (Module::store_side_by_side()), also in the backward pass.
std::vector<Variable> forward_together(const std::vector<const Linear*>& layers, const Variable& x);

}  // namespace fovea
