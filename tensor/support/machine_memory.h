/// The amount of memory that the machine has.
#pragma once
#include <cstddef>

namespace fovea {

/// Amounts of memory in bytes, swap included: `total` is all memory of the machine or, if that is less, the limit of
/// the container; `available` is the part that is free now. Both are the largest std::size_t if the system does not
/// report them.
struct MachineMemory {
  std::size_t total, available;
};
MachineMemory machine_memory();

}  // namespace fovea
