/// The amount of memory that the machine has.
#pragma once
#include <cstddef>
#include <filesystem>

namespace fovea {

/// Amounts of memory in bytes, swap included: `total` is all memory of the machine or, if that is less, the limit of
/// the container; `available` is the part that is free now, or holds copies of files that the system drops when a
/// program needs the memory. Both are the largest std::size_t if the system does not report them.
struct MachineMemory {
  std::size_t total, available;
};
/// `root` is the root of the file system, with /proc and /sys below it.
MachineMemory machine_memory(const std::filesystem::path& root = "/");

}  // namespace fovea
