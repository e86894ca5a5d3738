/// --device of the programs that compute on any device: one wording for all of them.
#pragma once
#include <string>

#include "experiments/support/program/cli.h"
#include "tensor/storage.h"

namespace fovea {

/// Declares --device. After parsing, device_of(device) is the device.
inline Cli::Option device_flag(Cli& cli, std::string& device) {
  return cli.option("--device", device, "device that computes: cpu, cuda, or cuda:N for GPU number N, counted from 0");
}

inline Device device_of(const std::string& flag) {
  Device device = Device::cpu;
  with_flag("--device", [&] { device = parse_device(flag); });
  return device;
}

}  // namespace fovea
