/// Several linear layers applied to one input in one matrix product.
#pragma once
#include <vector>

#include "nn/linear.h"

namespace fovea {

/// Returns layer_k(x) = x W_k + b_k for each layer k: x [..., in] → [..., out_k]. If x has many rows and all layers
/// have biases, x is multiplied by the concatenation of all W_k, and the results are views of the columns of this
/// product. The backward pass adds up the layers' contributions to the gradient of x inside the matrix products.
std::vector<Variable> forward_together(const std::vector<const Linear*>& layers, const Variable& x);

}  // namespace fovea
