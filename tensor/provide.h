/// Fills the entries of a device's kernel table (kernels.h) for whole lists of formulas, one entry for each formula.
#pragma once
#include "tensor/formula/list.h"
#include "tensor/kernels.h"

namespace fovea {

/// Fills the entries of all formulas of `list`. The entry of formula F becomes a function whose first argument is the
/// address of an F, f, without its type: it calls run(f, the other arguments...).
template <class Entries, class... F, class Run>
void provide_list(Entries& entries, FunctorList<F...> list, Run) {
  (entries[place_of<F>(list)].template call<F, Run>(), ...);
}

}  // namespace fovea
