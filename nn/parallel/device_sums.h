/// Sums over processes that GPUs make among themselves.
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

/// Lets the GPUs of all processes join, each process having one of its own. Throws Error if fovea was built without
/// NCCL. All processes must call it.
std::unique_ptr<DeviceSums> start_device_sums(ProcessGroup& group);

/// A sum on GPUs, in whatever order NCCL adds the shares.
class DeviceSum final : public PendingSum {
 public:
  DeviceSum(ProcessGroup& group, DeviceSums& sums, SharedSum& sum);
  bool progress() override { return false; }  // the GPU does it
  void wait() override;

 private:
  ProcessGroup& group_;
  DeviceSums& sums_;
  SharedSum& sum_;
};

}  // namespace fovea
