/// The kernel tables: what a device must implement. There is one table for each device, with one entry for each kernel.
///
/// A public function of tensor/ is a front: it checks its arguments, allocates the result on their device, and calls
/// `kernels(x.device()).gemm(...)`. The CPU kernels are in tensor/cpu, the GPU kernels in cuda/. If a device lacks a
/// kernel, its entry is empty, and calling the entry throws an Error that names the operation and the device.
///
/// Every kernel may assume that its operands are defined, lie on its device, and have the types and shapes that the
/// front's documentation demands. Inputs have any strides. `out` is contiguous and new, unless its entry says
/// otherwise.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tensor/error.h"
#include "tensor/formula/philox.h"
#include "tensor/storage.h"
#include "tensor/tensor.h"

namespace fovea {

struct LaunchCount;
struct MapFormula;
struct RangeCheck;
struct RowOperands;
struct TopK;

class Kernels;

/// The part of a table entry that does not depend on the kernel's signature: its name, and whether the device has it.
/// Kernels::entries() lists all entries of a table in this form, for tests and benchmarks.
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

/// Calls Run with the formula of type F at `address` and the other arguments.
template <class F, class Run, class Address, class... Arguments>
void call_with_formula(Address address, Arguments... arguments) {
  Run{}(*static_cast<const F*>(address), static_cast<Arguments&&>(arguments)...);
}

/// One entry of a table: a function pointer, which is null if the device lacks the kernel. Calling an empty entry
/// throws Error.
template <class Signature>
class Kernel;
template <class Result, class... Arguments>
class Kernel<Result(Arguments...)> final : public KernelEntry {
 public:
  using Function = Result (*)(Arguments...);
  using KernelEntry::KernelEntry;
  void operator=(Function function) { function_ = function; }
  bool exists() const override { return function_ != nullptr; }
  /// Sets the entry to a function that calls Run, a lambda without captures, with the formula of type F that the first
  /// argument points to, and with the other arguments.
  template <class F, class Run>
  void call() {
    function_ = call_with_formula<F, Run, Arguments...>;
  }
  Result operator()(Arguments... arguments) const {
    if (!function_) [[unlikely]]
      missing();
    return function_(static_cast<Arguments&&>(arguments)...);
  }

 private:
  Function function_ = nullptr;
};

/// The operands of one application of an element-wise formula, out... = f(in...). The results have one shape, and any
/// strides; the inputs broadcast to that shape. A result may be the same view as an input.
struct MapGroup {
  Tensor* const* out;
  const Tensor* const* in;
};
// Kernels of formulas. Each formula has an entry of its own, which is found by its name (formula_kernels()); `formula`
// points to the formula.

/// A kernel that applies a comparison or selection (formula/truths.h) to operands as those of a MapGroup. Results are
/// contiguous and new.
using TruthKernel = Kernel<void(const void* formula, Tensor* const* out, const Tensor* const* in)>;

/// A kernel that applies a row formula (formula/row.h) to all rows of its operands.
using RowKernel = Kernel<void(const void* formula, const RowOperands& operands)>;

/// A kernel that reduces `x` (formula/reductions.h) over the dimensions in which `out`, of the same rank, has size 1.
/// Both are f32 or f64; or, for sums, x is of integers or bool, and `out` i64.
using ReduceKernel = Kernel<void(const void* formula, const Tensor& x, Tensor& out)>;

/// A product: c = alpha a b + beta c, and what the same kernel computes beside it.
struct GemmForm {
  double alpha = 1, beta = 0;
  const Tensor* bias = nullptr;   ///< [n], added to each row of c
  Tensor* column_sums = nullptr;  ///< becomes the sums of b's columns, [n]
};

/// The kernel table of one device.
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
  /// Allocates at least `bytes` bytes, aligned to 64 bytes. Throws Error if the device has not enough memory.
  Kernel<std::byte*(std::size_t bytes)> allocate{*this, "allocate"};
  Kernel<void(std::byte* block, std::size_t bytes)> deallocate{*this, "deallocate"};
  Kernel<AllocatorStatistics()> statistics{*this, "statistics"};
  Kernel<void()> reset_peak{*this, "reset_peak"};
  Kernel<void()> release_cache{*this, "release_cache"};
  /// Copies bytes of the host to this device. The host does not wait for the copy; it may change or free its memory at
  /// once.
  Kernel<void(void* to, const void* from, std::size_t bytes)> upload{*this, "upload"};
  /// Copies bytes of this device to the host, and waits until the copy is finished.
  Kernel<void(void* to, const void* from, std::size_t bytes)> download{*this, "download"};
  /// Copies bytes within this device, without waiting.
  Kernel<void(void* to, const void* from, std::size_t bytes)> copy_bytes{*this, "copy_bytes"};
  /// Returns the seconds that the device needs for the kernels that `work` launches. Waits until they have finished.
  Kernel<double(const std::function<void()>& work)> time{*this, "time"};
  /// Returns how often the host has waited for the device since the program began.
  Kernel<std::uint64_t()> synchronizations{*this, "synchronizations"};
  /// Returns how often each kernel was launched since the program began and the bytes that it moved, by name. Products
  /// and sorts of a library, and copies between devices, count as kernels.
  Kernel<std::vector<LaunchCount>()> launches{*this, "launches"};
  Kernel<std::string()> describe{*this, "describe"};  ///< name and memory size: "NVIDIA H200, 139 GiB"

  // ---- Elements ----
  /// Casts and broadcasts `from` into `to`, which has any strides.
  Kernel<void(Tensor& to, const Tensor& from)> copy{*this, "copy"};
  Kernel<void(Tensor& out, double value)> fill{*this, "fill"};  ///< out has any strides
  Kernel<void(Tensor& out, std::int64_t start)> arange{*this, "arange"};
  /// Applies an element-wise formula of f32 or f64 to each group of operands; `functor` has the type that `formula`
  /// (map_formula.h) describes. All operands of a group have one type, and the inputs that the functor declares as
  /// shared (shared_inputs) have one element; groups may differ in type and shape. No result of one group shares memory
  /// with an operand of another, so that a device may compute all groups at the same time.
  Kernel<void(const MapFormula& formula, const void* functor, std::span<const MapGroup> groups)> map{*this, "map"};
  std::deque<TruthKernel> truths;

  // ---- Random numbers ----
  Kernel<void(RandomPosition at, double low, double high, Tensor& out)> fill_uniform{*this, "fill_uniform"};
  Kernel<void(RandomPosition at, double mean, double deviation, Tensor& out)> fill_normal{*this, "fill_normal"};
  /// Computes dropout of `x`, plus `residual` unless that is null. `x` and `residual` are contiguous.
  Kernel<void(const DropoutMask& mask, const Tensor& x, const Tensor* residual, Tensor& out)> dropout{*this, "dropout"};

  // ---- Reductions ----
  std::deque<ReduceKernel> reductions;
  Kernel<void(const Tensor& x, TopK& out)> top_k{*this, "top_k"};
  /// Writes √Σ x² over all elements of all tensors, which are f32 or f64, into `out`, f64 [].
  Kernel<void(std::span<const Tensor> tensors, Tensor& out)> global_norm{*this, "global_norm"};

  // ---- Products ----
  /// `c` has any strides, and does not overlap `a` or `b`. With a bias or column sums, the operands are matrices, alpha
  /// is 1 and beta 0; the kernel returns false, and does nothing, if the device has none that computes both at once.
  Kernel<bool(const Tensor& a, const Tensor& b, Tensor& c, const GemmForm& form)> gemm{*this, "gemm"};

  // ---- Gather and scatter: indices are i32 or i64 ----
  /// Throws check.error() for the first index, in row-major order, that is outside of its range. A device that the host
  /// would have to wait for throws it later, when the host waits anyway. Until then its kernels must not fail: they
  /// gather 0 for an index that is outside, and scatter nothing.
  Kernel<void(const RangeCheck& check, const Tensor& index)> check_range{*this, "check_range"};
  /// These two check the range of `index` themselves. There is at least one index; rows may have no elements.
  Kernel<void(const RangeCheck& check, const Tensor& table, const Tensor& index, Tensor& out)> gather_rows{
      *this, "gather_rows"};
  /// Adds `rows` to the rows of `table` that `index` names. The table has any strides; `rows` does not overlap it.
  Kernel<void(const RangeCheck& check, Tensor& table, const Tensor& index, const Tensor& rows)> scatter_add_rows{
      *this, "scatter_add_rows"};
  /// The front has checked the indices of these two with check_range.
  Kernel<void(const Tensor& x, const Tensor& index, Tensor& out)> gather_last{*this, "gather_last"};
  Kernel<void(const Tensor& x, const Tensor& index, Tensor& out)> scatter_add_last{*this, "scatter_add_last"};

  // ---- Rows: softmax, layer normalisation, ... ----
  std::deque<RowKernel> rows;
};

/// Returns the table of a device, for calling kernels. Throws Error for Device::cuda if fovea was built without CUDA or
/// the machine has no GPU.
const Kernels& kernels(Device device);
/// Whether fovea was built with CUDA and the machine has a GPU.
bool cuda_is_available();

/// The failure of a kernel that is known to belong to the operation that runs now. The backward pass adds the operation
/// whose gradient it computes.
class KernelFault : public Error {
 public:
  using Error::Error;
};

/// How often a kernel was launched, and how many bytes it had to move.
struct LaunchCount {
  std::string kernel;
  std::uint64_t launches = 0;
  /// The least number of bytes that the launches read and write in the device's memory: each element of each operand
  /// once, broadcast elements once. What the caches do not hold is read more often.
  std::uint64_t bytes = 0;
};

/// Returns the table of a device for filling or listing it. Unlike kernels(), it does not check that the device can be
/// used.
Kernels& kernel_table(Device device);

/// Returns the entry for the formula of this name among the entries of one kind of formulas, such as &Kernels::rows. If
/// there is none, the tables of all devices get an empty one.
template <class Entry>
Entry& formula_kernel(std::deque<Entry> Kernels::*entries, Device device, const char* name);

/// The entries for one formula on all devices.
template <class Entry>
struct FormulaKernels {
  const Entry *cpu, *cuda;
  /// Throws Error if the device cannot be used.
  const Entry& on(Device device) const { return kernels(device).device == Device::cpu ? *cpu : *cuda; }
};
template <class F, class Entry>
const FormulaKernels<Entry>& formula_kernels(std::deque<Entry> Kernels::*entries) {
  static const FormulaKernels<Entry> found{&formula_kernel(entries, Device::cpu, F::name),
                                           &formula_kernel(entries, Device::cuda, F::name)};
  return found;
}

/// Puts kernels into the table of their device before main() begins. Each source file of kernels ends with one such
/// object:
/// `const Provide provide(Device::cpu, [](Kernels& table) { table.top_k = top_k; });`
struct Provide {
  Provide(Device device, void (*fill)(Kernels& table)) { fill(kernel_table(device)); }
};

}  // namespace fovea
