#include "nn/parallel/device_sums.h"

#include "nn/parallel/module.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

std::unique_ptr<DeviceSums> start_device_sums(ProcessGroup& group) {
  auto* start = reinterpret_cast<StartDeviceSums*>(
      function_of_module(nccl_module_file, nccl_start_name,
                         "several processes with --device cuda need NCCL, which fovea was built without; install it "
                         "beside the CUDA Toolkit and build again"));
  return std::unique_ptr<DeviceSums>(start(group));
}

DeviceSum::DeviceSum(ProcessGroup& group, DeviceSums& sums, SharedSum& sum) : group_(group), sums_(sums), sum_(sum) {
  for (std::size_t s = 0; s < sum.sections.size(); ++s)
    if (!sum.has_own[s]) sum.own.slice(0, sum.sections[s].first, sum.sections[s].first + sum.sections[s].size).fill(0);
  sums_.begin(sum.own);
}

DeviceSum::~DeviceSum() {
  if (is_awaited_) return;
  try {
    sums_.wait();
  } catch (const Error&) {  // the device is lost, and nothing runs on it
  }
}

void DeviceSum::wait() {
  // Which sections have a share is known to the hosts, which tell each other; they do not wait for the GPUs.
  const std::string_view own(reinterpret_cast<const char*>(sum_.has_own.data()), sum_.has_own.size());
  std::vector<std::uint8_t> has_share(own.size());
  for (const std::string& one : group_.gather(own))
    for (std::size_t s = 0; s < one.size(); ++s) has_share[s] |= static_cast<std::uint8_t>(one[s]);
  sums_.wait();
  is_awaited_ = true;
  for (std::size_t s = 0; s < sum_.sections.size(); ++s) {
    if (!has_share[s]) continue;
    const std::int64_t first = sum_.sections[s].first, end = first + sum_.sections[s].size;
    Tensor total = sum_.total.slice(0, first, end);
    const Tensor share = sum_.own.slice(0, first, end);
    sum_.has_total[s] ? map_into(total, Add{}, total, share) : total.copy_from(share);
    sum_.has_total[s] = 1;
  }
}

}  // namespace fovea
