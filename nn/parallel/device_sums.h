/// Sums over processes that are computed by GPUs, without the host.
#pragma once
#include <memory>

#include "nn/parallel/process_group.h"

namespace fovea {

/// Sums of tensors on this process's GPU. They run beside the GPU's other kernels; the host does not wait for them.
class DeviceSums {
 public:
  virtual ~DeviceSums() = default;
  /// Begins to replace the contiguous f32 or f64 tensor, as the kernels so far leave it, by the sum over all processes.
  virtual void begin(Tensor& x) = 0;
  /// Lets the kernels that follow wait for all sums that have begun.
  virtual void wait() = 0;
};

/// Connects the GPUs of all processes, of which each must have one of its own. All processes must call it. Throws Error
/// if fovea was built without NCCL.
std::unique_ptr<DeviceSums> start_device_sums(ProcessGroup& group);

/// The sum of a SharedSum on GPUs. NCCL chooses the order of the additions, so that results may differ in their last
/// bits.
class DeviceSum final : public PendingSum {
 public:
  DeviceSum(ProcessGroup& group, DeviceSums& sums, SharedSum& sum);
  /// A sum that nobody has waited for, because a backward pass has thrown: kernels that may get the memory wait for it.
  ~DeviceSum() override;
  bool progress() override { return false; }  // the GPU works without the host
  void wait() override;

 private:
  ProcessGroup& group_;
  DeviceSums& sums_;
  SharedSum& sum_;
  bool is_awaited_ = false;
};

}  // namespace fovea
