#include "tensor/kernels.h"

#include <algorithm>
#include <mutex>

namespace fovea {

KernelEntry::KernelEntry(Kernels& table, const char* name) : table_(table), name_(name) {
  table.entries_.push_back(this);
}

void KernelEntry::missing() const {
  fail("{}: there is no kernel for it on {}; move its operands to the CPU, x.to(Device::cpu), or run with --device cpu",
       name_, fovea::name(table_.device));
}

Kernels::Kernels(Device device) : device(device) {}

/// The tables are never destroyed, because tensors in static variables free their memory through them at program exit.
Kernels& kernel_table(Device device) {
  static Kernels* const tables[] = {new Kernels(Device::cpu), new Kernels(Device::cuda)};
  return *tables[static_cast<int>(device)];
}

template <class Entry>
Entry& formula_kernel(std::deque<Entry> Kernels::*entries, Device device, const char* name) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::deque<Entry>& known = kernel_table(Device::cpu).*entries;
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const Entry& kernel) { return std::string_view(kernel.name()) == name; });
  const auto place = static_cast<std::size_t>(found - known.begin());
  if (place == known.size())
    for (Device each : {Device::cpu, Device::cuda})
      (kernel_table(each).*entries).emplace_back(kernel_table(each), name);
  return (kernel_table(device).*entries)[place];
}
template TruthKernel& formula_kernel(std::deque<TruthKernel> Kernels::*, Device, const char*);
template ReduceKernel& formula_kernel(std::deque<ReduceKernel> Kernels::*, Device, const char*);
template RowKernel& formula_kernel(std::deque<RowKernel> Kernels::*, Device, const char*);

/// Initialises the GPU at the first call. Throws Error if it cannot be used. Defined in cuda/device.cpp, and in
/// cuda/absent.cpp for builds without CUDA.
void start_cuda();

const Kernels& kernels(Device device) {
  static const Kernels& cpu = kernel_table(Device::cpu);
  if (device == Device::cpu) [[likely]]
    return cpu;
  start_cuda();
  return kernel_table(Device::cuda);
}

}  // namespace fovea
