/// --device of the programs that compute on any device: one wording for all of them.
#pragma once
#include <string>

#include "experiments/support/program/cli.h"
#include "nn/parallel/process_group.h"
#include "tensor/kernels.h"

namespace fovea {

/// Declares --device. After parsing, started_device(cli, device) is the device.
inline Cli::Option device_flag(Cli& cli, std::string& device) {
  return cli.option("--device", device, "device that computes: cpu, cuda, or cuda:N for GPU number N, counted from 0");
}

/// The device that the value of --device names. Of several processes that train together on one machine with `cuda`,
/// each has a GPU of its own. Throws Error if the value names none.
inline Device device_of(const std::string& value) {
  Device device = Device::cpu;
  const int processes = processes_on_this_machine();
  with_flag("--device", [&] {
    const bool has_own_gpu = processes > 1 && value == "cuda";
    require(processes == 1 || !value.starts_with("cuda:"),
            "'{}': {} processes train together on this machine, and each needs a GPU of its own; use cuda", value,
            processes);
    device = parse_device(has_own_gpu ? fmt::format("cuda:{}", rank_on_this_machine()) : value);
  });
  return device;
}

/// The device that the value of --device names, ready to compute. Throws Error if this build or machine does not have
/// it. If a file such as a run's config.json chose it, and no flag, the message names the file.
inline Device started_device(const Cli& cli, const std::string& value) {
  try {
    const Device device = device_of(value);
    kernels(device);
    return device;
  } catch (const Error& error) {
    const int processes = processes_on_this_machine();
    if (processes > 1 && value == "cuda")
      fail("{}; each of the {} processes on this machine needs one", error.what(), processes);
    const std::string& file = cli.origin_of("--device");
    if (file.empty()) throw;
    fail("{} has {}; --device on the command line overrides the file", file, error.what());
  }
}

}  // namespace fovea
