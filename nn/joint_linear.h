/// Several linear layers of one input.
#pragma once
#include <vector>

#include "nn/linear.h"

namespace fovea {

/// x W_k + b_k of each layer, [..., out_k]. With many rows it is one product with all weights side by side, and the
/// results are views of its columns; the parts of x's gradient are added up where the products put them.
std::vector<Variable> forward_together(const std::vector<const Linear*>& layers, const Variable& x);

}  // namespace fovea
