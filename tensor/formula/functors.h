/// All element-wise functors of the library, for the kernels of a device and for tests.
#pragma once
#include "tensor/formula/arithmetic.h"
#include "tensor/formula/functions.h"

namespace fovea {

using ElementwiseFunctors = Joined<ArithmeticFunctors, FunctionFunctors>;

}  // namespace fovea
