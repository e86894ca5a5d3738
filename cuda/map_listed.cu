// The GPU's kernels for the element-wise formulas of the library's lists and their first derivatives.
#include "autograd/operations/lstm_cell.h"
#include "cuda/map_groups.h"
#include "nn/optimizer_formulas.h"
#include "tensor/formula/functors.h"

namespace fovea::cuda {

const bool are_compiled = compile_maps<0, 1>(ElementwiseFunctors{});
const bool are_several_compiled = [] {
  for_functors<0>(Joined<formula::LstmFormulas, formula::OptimizerFormulas>{},
                  []<class F, int inputs>(TypedFunctor<F, inputs>) { compiled_maps()[typeid(F)] = map_groups<F>; });
  return true;
}();

}  // namespace fovea::cuda
