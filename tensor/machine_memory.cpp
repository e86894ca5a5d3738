#include "tensor/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace fovea {

namespace {

/// The number that a file of the system begins with; the largest where there is none ("max").
std::size_t limit_in(const char* path) {
  std::size_t limit = 0;
  return std::ifstream(path) >> limit ? limit : std::numeric_limits<std::size_t>::max();
}

}  // namespace

MachineMemory machine_memory() {
  std::ifstream file("/proc/meminfo");
  MachineMemory memory{0, 0};
  std::string name, unit;
  for (std::size_t kibibytes; file >> name >> kibibytes; std::getline(file, unit)) {
    if (name == "MemTotal:" || name == "SwapTotal:") memory.total += kibibytes * 1024;
    if (name == "MemAvailable:" || name == "SwapFree:") memory.available += kibibytes * 1024;
  }
  if (memory.total == 0) memory.total = memory.available = std::numeric_limits<std::size_t>::max();
  std::size_t limit =
      std::min(limit_in("/sys/fs/cgroup/memory.max"), limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  return {std::min(memory.total, limit), std::min(memory.available, limit)};
}

}  // namespace fovea
