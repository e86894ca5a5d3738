// The CPU's loops for second derivatives of the element-wise formulas, which backward passes with create_graph use.
// They have a file of their own because they take long to compile.
#include "tensor/formula/functor_list.h"
#include "tensor/map.h"

namespace fovea::cpu {

const bool are_second_listed = [] {
  for_functors<2>(ElementwiseFunctors{},
                  []<class F, int inputs>(TypedFunctor<F, inputs>) { list_formula(map_formula_of<F, inputs>); });
  return true;
}();

}  // namespace fovea::cpu
