/// The row formulas of all operations, for the kernels of a GPU and for tests.
#pragma once
#include <tuple>

#include "autograd/operations/cross_entropy.h"
#include "autograd/operations/cumulative_sum.h"
#include "autograd/operations/layer_norm.h"
#include "autograd/operations/softmax.h"
#include "tensor/range.h"

namespace fovea::formula {

/// The lists of formulas. To add an operation, include its header and add its list.
using RowFormulas =
    std::tuple<SoftmaxFormulas, LayerNormFormulas, CrossEntropyFormulas, CumulativeSumFormulas, RangeFormulas>;

}  // namespace fovea::formula
