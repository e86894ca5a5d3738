#include "tensor/storage.h"

#include "tensor/error.h"
#include "tensor/kernels.h"

namespace fovea {

std::string_view name(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

Device parse_device(std::string_view text) {
  if (text == "cpu") return Device::cpu;
  if (text == "cuda") return Device::cuda;
  fail("'{}' is not a device; use cpu or cuda", text);
}

Storage::Storage(std::size_t bytes, Device device)
    : data_(kernels(device).allocate(bytes)), bytes_(bytes), device_(device) {}

Storage::~Storage() { kernels(device_).deallocate(data_, bytes_); }

AllocatorStatistics allocator_statistics(Device device) { return kernels(device).statistics(); }
void reset_peak(Device device) { kernels(device).reset_peak(); }
void release_cache(Device device) { kernels(device).release_cache(); }

}  // namespace fovea
