/// The contract of a device: one entry for each kernel, one table for each device.
///
/// A public function of tensor/ is a front: it checks its arguments, allocates the result on their device, and calls
/// `kernels(x.device()).gemm(...)`. The kernels of the CPU are in tensor/cpu, those of the GPU in cuda/. A device
/// that lacks a kernel has an empty entry, and calling it throws an error that names the operation and the device.
///
/// Every kernel may assume that its operands are defined, lie on its device, and have the types and shapes that the
/// front's documentation demands. Inputs have any strides. `out` is contiguous and new, unless its entry says
/// otherwise.
#pragma once
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "tensor/formula/philox.h"
#include "tensor/storage.h"
#include "tensor/tensor.h"

namespace fovea {

enum class Reduction;
struct RowOperands;
struct TopK;

class Kernels;

/// A kernel's name, and whether its device has it: what the list of a table's entries shows.
class KernelEntry {
 public:
  KernelEntry(Kernels& table, const char* name);
  KernelEntry(const KernelEntry&) = delete;
  KernelEntry& operator=(const KernelEntry&) = delete;
  const char* name() const { return name_; }
  virtual bool exists() const = 0;

 protected:
  ~KernelEntry() = default;
  [[noreturn]] void missing() const;

 private:
  const Kernels& table_;
  const char* name_;
};

/// A function whose first argument is the address of a formula F: calls Run on the formula and the other arguments.
template <class F, class Run, class Result, class... Arguments>
struct CallOn;
template <class F, class Run, class... Arguments>
struct CallOn<F, Run, void, const void*, Arguments...> {
  static void function(const void* formula, Arguments... arguments) {
    Run{}(*static_cast<const F*>(formula), static_cast<Arguments&&>(arguments)...);
  }
};

/// One entry: a function, or nothing where the device lacks it.
template <class Signature>
class Kernel;
template <class Result, class... Arguments>
class Kernel<Result(Arguments...)> : public KernelEntry {
 public:
  using Function = Result (*)(Arguments...);
  using KernelEntry::KernelEntry;
  void operator=(Function function) { function_ = function; }
  bool exists() const override { return function_ != nullptr; }
  /// Sets the entry to Run, a lambda without captures, on a formula of type F, which the first argument points to.
  template <class F, class Run>
  void call() {
    function_ = CallOn<F, Run, Result, Arguments...>::function;
  }
  Result operator()(Arguments... arguments) const {
    if (!function_) [[unlikely]]
      missing();
    return function_(static_cast<Arguments&&>(arguments)...);
  }

 private:
  Function function_ = nullptr;
};

/// out... = f(in...), element by element, where f is the formula of the list that the entry is for. Inputs broadcast to
/// the results, which have one shape and any strides; a result may be one of the inputs.
using MapKernel = Kernel<void(const void* formula, Tensor* const* out, const Tensor* const* in)>;

/// The formula of the list that the entry is for, on all rows of its operands.
using RowKernel = Kernel<void(const void* formula, const RowOperands& operands)>;

class Kernels {
 public:
  explicit Kernels(Device device);
  const Device device;

 private:
  friend class KernelEntry;
  std::vector<const KernelEntry*> entries_;

 public:
  std::span<const KernelEntry* const> entries() const { return entries_; }

  // ---- Memory and the device itself ----
  /// At least so many bytes, aligned to 64. Throws Error where the device has no more.
  Kernel<std::byte*(std::size_t bytes)> allocate{*this, "allocate"};
  Kernel<void(std::byte* block, std::size_t bytes)> deallocate{*this, "deallocate"};
  Kernel<AllocatorStatistics()> statistics{*this, "statistics"};
  Kernel<void()> reset_peak{*this, "reset_peak"};
  Kernel<void()> release_cache{*this, "release_cache"};
  /// Bytes between this device and the host, in either direction; the host's memory is the caller's again on return.
  Kernel<void(void* to, const void* from, std::size_t bytes)> transfer{*this, "transfer"};
  /// How often the host has waited for the device since the program began.
  Kernel<std::uint64_t()> synchronizations{*this, "synchronizations"};
  Kernel<std::string()> describe{*this, "describe"};  ///< "NVIDIA H200, 139 GiB"

  // ---- Elements ----
  /// Casts and broadcasts `from` into `to`, which has any strides.
  Kernel<void(Tensor& to, const Tensor& from)> copy{*this, "copy"};
  Kernel<void(Tensor& out, double value)> fill{*this, "fill"};  ///< out has any strides
  Kernel<void(Tensor& out, std::int64_t start)> arange{*this, "arange"};
  /// The listed functors (formula/functors.h): three for each, for the functor and its two derivatives.
  std::deque<MapKernel> maps;
  const MapKernel& map(int place, int order) const { return maps[static_cast<std::size_t>(3 * place + order)]; }
  /// Formulas with several results (formula/several_formulas.h), by their place in the list.
  std::deque<MapKernel> several;
  /// Comparisons, logic and choice (formula/truths.h), by their place in the list; results are contiguous and new.
  std::deque<MapKernel> truths;

  // ---- Random numbers ----
  Kernel<void(RandomPosition at, double low, double high, Tensor& out)> fill_uniform{*this, "fill_uniform"};
  Kernel<void(RandomPosition at, double mean, double deviation, Tensor& out)> fill_normal{*this, "fill_normal"};
  /// x and residual contiguous; residual may be null.
  Kernel<void(const DropoutMask& mask, const Tensor& x, const Tensor* residual, Tensor& out)> dropout{*this, "dropout"};

  // ---- Reductions ----
  /// out has x's rank, and size 1 in the dimensions that are reduced; f32, f64, and i64 for sums.
  Kernel<void(Reduction reduction, const Tensor& x, Tensor& out)> reduce{*this, "reduce"};
  Kernel<void(const Tensor& x, TopK& out)> top_k{*this, "top_k"};
  Kernel<double(std::span<const Tensor> tensors)> global_norm{*this, "global_norm"};

  // ---- Products ----
  /// c = alpha a b + beta c; c of any strides, in memory of its own.
  Kernel<void(const Tensor& a, const Tensor& b, Tensor& c, double alpha, double beta)> gemm{*this, "gemm"};

  // ---- By index, i32 or i64; every index is in range, which the front has asked first_outside ----
  /// The position, in row-major order, of the first index that is neither in 0 to size − 1 nor `ignored`; −1: none.
  Kernel<std::int64_t(const Tensor& index, std::int64_t size, std::int64_t ignored)> first_outside{*this,
                                                                                                   "first_outside"};
  Kernel<void(const Tensor& table, const Tensor& index, Tensor& out)> gather_rows{*this, "gather_rows"};
  /// The table has any strides; rows lie in memory of their own.
  Kernel<void(Tensor& table, const Tensor& index, const Tensor& rows)> scatter_add_rows{*this, "scatter_add_rows"};
  Kernel<void(const Tensor& x, const Tensor& index, Tensor& out)> gather_last{*this, "gather_last"};
  Kernel<void(const Tensor& x, const Tensor& index, Tensor& out)> scatter_add_last{*this, "scatter_add_last"};

  // ---- Rows: the listed formulas (formula/row_formulas.h), by their place in the list ----
  std::deque<RowKernel> rows;
};

/// The table of a device that can be used. Throws Error in one line for CUDA where fovea was built without it or where
/// there is no GPU.
const Kernels& kernels(Device device);
/// Whether there is a GPU, and fovea was built for it.
bool cuda_is_available();

/// The table of a device as far as its kernels are compiled in, to be filled, listed or tested.
Kernels& kernel_table(Device device);

/// Puts kernels into the table of their device before the program begins. A file of kernels ends with one:
/// `const Provide provide(Device::cpu, [](Kernels& table) { table.top_k = top_k; });`
struct Provide {
  Provide(Device device, void (*fill)(Kernels& table)) { fill(kernel_table(device)); }
};

}  // namespace fovea
