/// Fills the entries of a device's kernel table (kernels.h) for whole lists of formulas, one entry for each formula.
#pragma once
#include "tensor/formula/list.h"
#include "tensor/kernels.h"

namespace fovea {

/// Fills the entries of all formulas of a list, which are among `entries`, such as &Kernels::rows. The entry of formula
/// F becomes a function whose first argument is the address of an F, f, without its type: it calls run(f, the other
/// arguments...).
template <class Entry, class... F, class Run>
void provide_list(Kernels& table, std::deque<Entry> Kernels::*entries, FunctorList<F...>, Run) {
  (formula_kernel(entries, table.device, F::name).template call<F, Run>(), ...);
}

}  // namespace fovea
