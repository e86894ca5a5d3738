#include "tensor/support/machine_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "tensor/support/control_groups.h"

namespace fovea {

namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

/// Returns the number at the beginning of a file; `otherwise` if the file does not exist or begins with something else,
/// such as "max".
std::size_t number_in(const std::filesystem::path& path, std::size_t otherwise) {
  std::size_t number = 0;
  return std::ifstream(path) >> number ? number : otherwise;
}

/// The bytes of files that the system keeps in a group's memory. They count as used, but a program can have them.
std::size_t cached_files(const std::filesystem::path& group, const std::string& prefix) {
  std::ifstream file(group / "memory.stat");
  std::size_t sum = 0;
  std::string name;
  for (std::size_t bytes; file >> name >> bytes;)
    if (name == prefix + "inactive_file" || name == prefix + "active_file") sum += bytes;
  return sum;
}

/// Lowers `memory` to the limits of these control groups. `prefix` begins the names of the numbers in memory.stat that
/// include those of the groups below.
void limit_to_groups(MachineMemory& memory, const std::vector<std::filesystem::path>& groups, const char* limit_file,
                     const char* used_file, const char* prefix) {
  for (const std::filesystem::path& group : groups) {
    const std::size_t limit = number_in(group / limit_file, unlimited), used = number_in(group / used_file, 0);
    if (limit == unlimited) continue;
    const std::size_t kept = used - std::min(used, cached_files(group, prefix));
    memory.total = std::min(memory.total, limit);
    memory.available = std::min(memory.available, limit - std::min(limit, kept));
  }
}

}  // namespace

MachineMemory machine_memory(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/meminfo");
  MachineMemory memory{0, 0};
  std::string name, unit;
  for (std::size_t kibibytes; file >> name >> kibibytes; std::getline(file, unit)) {
    if (name == "MemTotal:" || name == "SwapTotal:") memory.total += kibibytes * 1024;
    if (name == "MemAvailable:" || name == "SwapFree:") memory.available += kibibytes * 1024;
  }
  if (memory.total == 0) memory = {unlimited, unlimited};
  limit_to_groups(memory, control_groups("", root), "memory.max", "memory.current", "");
  limit_to_groups(memory, control_groups("memory", root), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_");
  return memory;
}

}  // namespace fovea
