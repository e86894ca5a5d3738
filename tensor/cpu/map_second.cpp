// The CPU's loops for second derivatives of the element-wise functors, which backward passes with create_graph use.
// They have a file of their own because they take long to compile.
#include "tensor/formula/functors.h"
#include "tensor/map.h"

namespace fovea::cpu {

const bool are_second_listed = list_formulas<2>(ElementwiseFunctors{});

}  // namespace fovea::cpu
