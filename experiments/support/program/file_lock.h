/// Locks between processes.
#pragma once
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>

namespace fovea {

/// A lock on a file, which is created if it is missing, and stays. The lock goes with the object, or with the process
/// if that is killed. It holds between machines that share a file system with locks (NFS; Lustre mounted with `flock`);
/// without them every lock is granted.
class FileLock {
 public:
  enum class Kind { shared, exclusive };

  FileLock() = default;  ///< no lock
  /// Not held if a lock of another process excludes this one.
  static FileLock attempt(const std::filesystem::path& path, Kind kind);
  /// Waits for an exclusive lock; calls before_waiting() if another process has one.
  static FileLock wait(const std::filesystem::path& path, const std::function<void()>& before_waiting);

  bool is_held() const { return file_ != nullptr; }
  /// Makes a shared lock exclusive if no other process shares it. Otherwise the lock is released.
  bool become_exclusive();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  explicit FileLock(const std::filesystem::path& path);
  /// False if another process holds a lock that excludes `kind`.
  bool lock(Kind kind);

  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace fovea
