/// Reverse-mode differentiation of a formula that is data: the gradients of all inputs from one walk over its steps.
#pragma once
#include <span>

#include "tensor/formula/expression.h"

namespace fovea {

/// The gradients of some inputs of an expression with one result, as an expression. Its inputs are the gradient of the
/// result and then all inputs of `value`; its results are the gradients of the inputs with the numbers `of`, in this
/// order. An incoming gradient of exactly 0 gives gradients of exactly 0, even where a derivative is infinite or NaN;
/// so does the branch of a select that is not taken. At ties and kinks the derivatives are those of dual numbers
/// (tensor/formula/dual.h).
Expression gradients_of(const Expression& value, std::span<const int> of);

}  // namespace fovea
