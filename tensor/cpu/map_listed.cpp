// The CPU's loops for the element-wise formulas of the library's lists and their first derivatives.
#include "tensor/formula/functor_list.h"
#include "tensor/map.h"

namespace fovea::cpu {

const bool are_listed = [] {
  auto list = []<class F, int inputs>(TypedFunctor<F, inputs>) { list_formula(map_formula_of<F, inputs>); };
  for_functors<0, 1>(ElementwiseFunctors{}, list);
  for_functors<0>(formula::SeveralFormulas{}, list);
  return true;
}();

}  // namespace fovea::cpu
