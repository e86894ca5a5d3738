/// Pointwise formulas that no compiler has seen, such as those that are written as text.
#pragma once
#include <vector>

#include "attention/formula/pointwise.h"

namespace fovea {

/// The formula of an expression of z, query position, key position, captures..., with one result. per_key[k] is
/// is_per_key() of capture k. On the CPU its operations are interpreted; on a GPU its text is compiled. The
/// differentiable operation can be differentiated any number of times. What is made for an expression is kept until the
/// program ends.
PointwiseFormula interpreted_formula(const Expression& expression, const std::vector<bool>& per_key);

}  // namespace fovea
