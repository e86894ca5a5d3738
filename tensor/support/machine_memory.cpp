#include "tensor/support/machine_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace fovea {

namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

/// Returns the number at the beginning of a file; `otherwise` if the file does not exist or begins with something else,
/// such as "max".
std::size_t number_in(const std::filesystem::path& path, std::size_t otherwise) {
  std::size_t number = 0;
  return std::ifstream(path) >> number ? number : otherwise;
}

/// Returns the path of this process's control group (cgroup), which limits its memory. /proc/self/cgroup lists it as
/// "0::PATH" in cgroup version 2, where `controller` is "", and as "N:memory:PATH" in version 1.
std::string group_of_this_process(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second != std::string::npos && line.substr(first + 1, second - first - 1) == controller)
      return line.substr(second + 1);
  }
  return "/";
}

/// Lowers `memory` to the limits of the control group `group` and of all its ancestors up to the root. In a container
/// `group` may be a path of the host; then only the files of the root exist, and those of other groups are skipped.
void limit_to_groups(MachineMemory& memory, const std::string& root, const std::string& group, const char* limit_file,
                     const char* used_file) {
  for (std::filesystem::path path = group;; path = path.parent_path()) {
    std::filesystem::path directory = root + path.string();
    std::size_t limit = number_in(directory / limit_file, unlimited), used = number_in(directory / used_file, 0);
    memory.total = std::min(memory.total, limit);
    memory.available = std::min(memory.available, limit - std::min(limit, used));
    if (!path.has_relative_path()) return;
  }
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
  if (memory.total == 0) memory = {unlimited, unlimited};
  limit_to_groups(memory, "/sys/fs/cgroup", group_of_this_process(""), "memory.max", "memory.current");
  limit_to_groups(memory, "/sys/fs/cgroup/memory", group_of_this_process("memory"), "memory.limit_in_bytes",
                  "memory.usage_in_bytes");
  return memory;
}

}  // namespace fovea
