/// Pointwise formulas that no compiler has seen, such as those that are written as text.
#pragma once
#include <vector>

#include "attention/formula/pointwise.h"

namespace fovea {

/// The formula of an expression of z, query position, key position, captures..., with one result. per_key[k] is
/// is_per_key() of capture k. With `of_weights` the first input is a weight, and the result must be linear in it: where
/// it is 0, as for keys that a query does not see, the result and all gradients are 0, whatever the factor is there. On
/// the CPU the operations are interpreted; on a GPU their text is compiled. The differentiable operation can be
/// differentiated until its operands are more than most_map_operands; then it throws Error. What is made for an
/// expression is kept until the program ends.
PointwiseFormula interpreted_formula(const Expression& expression, const std::vector<bool>& per_key,
                                     bool of_weights = false);

}  // namespace fovea
