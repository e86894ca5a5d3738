// The GPU's kernels for second derivatives of the element-wise formulas.
#include "cuda/map_kernel.h"
#include "tensor/formula/functors.h"

namespace fovea::cuda {

const bool are_second_compiled = compile_maps<2>(ElementwiseFunctors{});

}  // namespace fovea::cuda
