#include "tensor/support/control_groups.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>

namespace fovea {

namespace {

/// Whether `list`, such as "cpu,cpuacct", contains `name`.
bool lists(const std::string& list, const std::string& name) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

/// A number at the beginning of a file; nothing if the file does not exist or begins with something else.
std::optional<double> number_in(const std::filesystem::path& path) {
  double number = 0;
  return std::ifstream(path) >> number ? std::optional(number) : std::nullopt;
}

/// quota / period of a control group; infinite if it has no quota. In version 2 cpu.max has both numbers, or "max" and
/// the period; in version 1 a quota of −1 is none.
double processors_of(const std::filesystem::path& group, bool version_2) {
  std::optional<double> quota, period;
  if (version_2) {
    std::ifstream file(group / "cpu.max");
    if (double a = 0, b = 0; file >> a >> b) quota = a, period = b;
  } else {
    quota = number_in(group / "cpu.cfs_quota_us"), period = number_in(group / "cpu.cfs_period_us");
  }
  const bool is_limit = quota && period && *quota > 0 && *period > 0;
  return is_limit ? *quota / *period : std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<std::filesystem::path> control_groups(const std::string& controller, const std::filesystem::path& root) {
  // /proc/self/cgroup lists the group as "0::PATH" in version 2, and as "N:cpu,cpuacct:PATH" in version 1
  std::string list = controller;
  std::filesystem::path group = "/";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string its = line.substr(first + 1, second - first - 1);
    if (its != controller && (controller.empty() || !lists(its, controller))) continue;
    list = its, group = line.substr(second + 1);
    break;
  }
  std::vector<std::filesystem::path> groups;
  const auto add = [&](const std::filesystem::path& mount) {
    for (std::filesystem::path path = group.relative_path(); !path.empty(); path = path.parent_path())
      groups.push_back(mount / path);
    groups.push_back(mount);
  };
  const std::filesystem::path mounts = root / "sys/fs/cgroup";
  add(mounts / list);
  if (controller.empty())
    add(mounts / "unified");  // where systemd mounts version 2 beside version 1
  else if (list != controller)
    add(mounts / controller);
  return groups;
}

int processors_of_quota(const std::filesystem::path& root) {
  double least = std::numeric_limits<double>::infinity();
  for (const std::string controller : {"", "cpu"})
    for (const std::filesystem::path& group : control_groups(controller, root))
      least = std::min(least, processors_of(group, controller.empty()));
  constexpr int most = std::numeric_limits<int>::max();
  // 1e-9: a quota of three processors in uneven periods is not four
  return least < most ? std::max(1, static_cast<int>(std::ceil(least - 1e-9))) : most;
}

}  // namespace fovea
