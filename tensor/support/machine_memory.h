/// How much memory the machine has.
#pragma once
#include <cstddef>

namespace fovea {

/// In bytes, swap included: all of it (or what a container may have), and what is free now. The largest number where
/// the system does not say.
struct MachineMemory {
  std::size_t total, available;
};
MachineMemory machine_memory();

}  // namespace fovea
