// The CPU's loops for the element-wise functors of the library's lists and their first derivatives.
#include "tensor/formula/functors.h"
#include "tensor/map.h"

namespace fovea::cpu {

const bool are_listed = list_formulas<0, 1>(ElementwiseFunctors{});

}  // namespace fovea::cpu
