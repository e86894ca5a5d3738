#include "tensor/kernels.h"

namespace fovea {

KernelEntry::KernelEntry(Kernels& table, const char* name) : table_(table), name_(name) {
  table.entries_.push_back(this);
}

void KernelEntry::missing() const {
  fail("{}: there is no kernel for it on {}; move its operands to the CPU, x.to(Device::cpu), or run with --device cpu",
       name_, fovea::name(table_.device));
}

namespace {

/// Entries for a functor, its derivative and its second derivative.
template <class... F>
auto map_entries(Kernels& table, FunctorList<F...>) {
  using Orders = std::array<MapKernel, 3>;
  return std::array<Orders, sizeof...(F)>{
      Orders{MapKernel(table, F::name), MapKernel(table, F::name), MapKernel(table, F::name)}...};
}

/// An entry for each formula of a list.
template <class Entry, class... Formulas>
auto entries_of(Kernels& table, FunctorList<Formulas...>) {
  return std::array<Entry, sizeof...(Formulas)>{Entry(table, Formulas::name)...};
}

}  // namespace

Kernels::Kernels(Device device)
    : device(device),
      maps(map_entries(*this, ElementwiseFunctors{})),
      rows(entries_of<RowKernel>(*this, formula::RowFormulas{})),
      several(entries_of<SeveralKernel>(*this, formula::CellFormulas{})),
      updates(entries_of<UpdateKernel>(*this, formula::UpdateFormulas{})) {}

/// The tables are never destroyed: tensors in static variables may outlive every other static object.
Kernels& kernel_table(Device device) {
  static Kernels* const tables[] = {new Kernels(Device::cpu), new Kernels(Device::cuda)};
  return *tables[static_cast<int>(device)];
}

/// Throws unless the GPU can be used; defined in cuda/device.cpp, and in cuda/absent.cpp for builds without CUDA.
void start_cuda();

const Kernels& kernels(Device device) {
  static const Kernels& cpu = kernel_table(Device::cpu);
  if (device == Device::cpu) [[likely]]
    return cpu;
  start_cuda();
  return kernel_table(Device::cuda);
}

}  // namespace fovea
