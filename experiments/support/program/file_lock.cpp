#include "experiments/support/program/file_lock.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/error.h"

namespace fovea {

FileLock FileLock::attempt(const std::filesystem::path& path, Kind kind) {
  while (true) {
    FileLock lock = open(path);
    if (!lock.lock(kind)) return {};
    if (lock.is_named()) return lock;
    lock.is_exclusive_ = false;  // the file of that name is another one
  }
}

FileLock FileLock::wait(const std::filesystem::path& path, const std::function<void()>& before_waiting) {
  FileLock lock = attempt(path, Kind::exclusive);
  if (!lock.is_held()) before_waiting();
  while (!lock.is_held()) {
    lock = open(path);
    while (::flock(lock.descriptor_, LOCK_EX) != 0 && errno == EINTR) continue;
    lock.is_exclusive_ = lock.is_named();
    if (!lock.is_exclusive_) lock = FileLock();
  }
  return lock;
}

FileLock FileLock::open(const std::filesystem::path& path) {
  FileLock lock;
  lock.path_ = path;
  lock.descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);  // NFS locks what can be written
  require(lock.is_held(), "{}: cannot be written: {}", path.string(), std::generic_category().message(errno));
  return lock;
}

bool FileLock::lock(Kind kind) {
  is_exclusive_ = kind == Kind::exclusive;
  if (::flock(descriptor_, (is_exclusive_ ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
  is_exclusive_ = false;
  return false;
}

bool FileLock::become_exclusive() {
  if (lock(Kind::exclusive)) return true;
  *this = FileLock();
  return false;
}

bool FileLock::is_named() const {
  struct stat opened = {}, named = {};
  return ::fstat(descriptor_, &opened) == 0 && ::stat(path_.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

FileLock::FileLock(FileLock&& other) noexcept { *this = std::move(other); }

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(is_exclusive_, other.is_exclusive_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ < 0) return;
  if (is_exclusive_) ::unlink(path_.c_str());  // before close(): after that, the file may belong to another process
  ::close(descriptor_);
}

}  // namespace fovea
