/// Control groups (cgroups), by which Linux and containers limit what a process gets.
#pragma once
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace fovea {

/// The directories of this process's control group and of all its ancestors, from the group up to the root.
/// `controller` names a resource of version 1, such as "cpu"; "" stands for version 2, which has all resources. In a
/// container the group may be a path of the host; then only the directory of the root exists. `root` is the root of the
/// file system, with /proc and /sys below it.
std::vector<std::filesystem::path> control_groups(const std::string& controller,
                                                  const std::filesystem::path& root = "/");

/// The number of processors whose time the control groups let this process use, rounded up, at least 1: the smallest
/// quota / period among them. The largest int if none has a quota.
int processors_of_quota(const std::filesystem::path& root = "/");

}  // namespace fovea
