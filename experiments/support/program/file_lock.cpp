#include "experiments/support/program/file_lock.h"

#include <cerrno>
#include <system_error>

#include <sys/file.h>

#include "tensor/error.h"

namespace fovea {

FileLock::FileLock(const std::filesystem::path& path) : file_(std::fopen(path.c_str(), "ae")) {
  require(is_held(), "{}: cannot be written: {}", path.string(), std::generic_category().message(errno));
}

FileLock FileLock::attempt(const std::filesystem::path& path, Kind kind) {
  FileLock lock(path);
  return lock.lock(kind) ? std::move(lock) : FileLock();
}

FileLock FileLock::wait(const std::filesystem::path& path, const std::function<void()>& before_waiting) {
  FileLock lock(path);
  if (lock.lock(Kind::exclusive)) return lock;
  before_waiting();
  while (::flock(::fileno(lock.file_.get()), LOCK_EX) != 0 && errno == EINTR) continue;
  return lock;
}

bool FileLock::lock(Kind kind) {
  const int how = (kind == Kind::exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
  return ::flock(::fileno(file_.get()), how) == 0 || errno != EWOULDBLOCK;
}

bool FileLock::become_exclusive() {
  const bool is_exclusive = lock(Kind::exclusive);
  if (!is_exclusive) file_.reset();
  return is_exclusive;
}

}  // namespace fovea
