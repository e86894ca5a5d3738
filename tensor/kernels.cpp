#include "tensor/kernels.h"

#include <algorithm>
#include <mutex>

#include "tensor/formula/reductions.h"
#include "tensor/formula/truths.h"
#include "tensor/rows.h"

namespace fovea {

KernelEntry::KernelEntry(Kernels& table, const char* name) : table_(table), name_(name) {
  table.entries_.push_back(this);
}

void KernelEntry::missing() const {
  fail("{}: there is no kernel for it on {}; move its operands to the CPU, x.to(Device::cpu), or run with --device cpu",
       name_, fovea::name(table_.device));
}

namespace {

/// Adds an entry to the table for each formula of a list.
template <class Entry, class... F>
void add_entries(Kernels& table, std::deque<Entry>& entries, FunctorList<F...>) {
  (entries.emplace_back(table, F::name), ...);
}

}  // namespace

Kernels::Kernels(Device device) : device(device) {
  add_entries(*this, truths, formula::TruthFormulas{});
  add_entries(*this, reductions, formula::Reductions{});
}

/// The tables are never destroyed, because tensors in static variables free their memory through them at program exit.
Kernels& kernel_table(Device device) {
  static Kernels* const tables[] = {new Kernels(Device::cpu), new Kernels(Device::cuda)};
  return *tables[static_cast<int>(device)];
}

RowKernel& row_kernel(Device device, const char* name) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::deque<RowKernel>& known = kernel_table(Device::cpu).rows;
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const RowKernel& kernel) { return std::string_view(kernel.name()) == name; });
  const auto place = static_cast<std::size_t>(found - known.begin());
  if (place == known.size())
    for (Device each : {Device::cpu, Device::cuda}) kernel_table(each).rows.emplace_back(kernel_table(each), name);
  return kernel_table(device).rows[place];
}

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
