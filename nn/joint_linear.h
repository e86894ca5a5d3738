/// Several linear layers applied to one input in one matrix product.
#pragma once
#include <vector>

#include "nn/linear.h"

namespace fovea {

/// layer_k(x) = x W_k + b_k for each layer. x [..., in] → [..., out_k]. For many rows x is multiplied with all weights
/// side by side; the results are views of the columns of this product. In the backward pass the layers' shares of x's
/// gradient are accumulated by the matrix products themselves.
std::vector<Variable> forward_together(const std::vector<const Linear*>& layers, const Variable& x);

}  // namespace fovea
