/// Locks between processes.
#pragma once
#include <filesystem>
#include <functional>

namespace fovea {

/// A lock on a file, which is created if it is missing. The lock goes with the object, or with the process if that is
/// killed. It holds between machines that share a file system with locks (NFS; Lustre mounted with `flock`); without
/// them every lock is granted.
class FileLock {
 public:
  enum class Kind { shared, exclusive };

  FileLock() = default;  ///< no lock
  /// Not held if a lock of another process excludes this one.
  static FileLock attempt(const std::filesystem::path& path, Kind kind);
  /// Waits for an exclusive lock; calls before_waiting() if another process has one.
  static FileLock wait(const std::filesystem::path& path, const std::function<void()>& before_waiting);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  /// Releases the lock. An exclusive one removes the file first.
  ~FileLock();

  bool is_held() const { return descriptor_ >= 0; }
  /// Makes a shared lock exclusive if no other process shares it. Otherwise the lock is released.
  bool become_exclusive();

 private:
  static FileLock open(const std::filesystem::path& path);
  /// False if another process holds a lock that excludes `kind`.
  bool lock(Kind kind);
  /// Whether the path still names this file: a process that released an exclusive lock has removed it.
  bool is_named() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool is_exclusive_ = false;
};

}  // namespace fovea
