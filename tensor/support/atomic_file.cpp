#include "tensor/support/atomic_file.h"

#include <cctype>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/error.h"

namespace fovea {
namespace {

constexpr mode_t permission_bits = 07777;

bool is_same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

/// Returns the system's message for an error number, with a small first letter: "no space left on device".
std::string reason(int error_number) {
  std::string message = std::generic_category().message(error_number);
  if (!message.empty()) message[0] = char(std::tolower(static_cast<unsigned char>(message[0])));
  return message;
}

/// Writes a directory to disk, so that a renamed file keeps its new name after a power cut. Errors are ignored, because
/// some file systems do not support this.
void sync_directory(const std::filesystem::path& directory) {
  int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)), target_(path_) {
  require(!path_.empty(), "cannot write a file with an empty name");
  std::error_code error;
  if (std::filesystem::is_symlink(path_, error)) {
    target_ = std::filesystem::weakly_canonical(path_, error);
    if (error) fail_with(error.value());
  }
  struct stat old = {};
  const bool exists = ::stat(target_.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) fail_with(EISDIR);
  if (exists && !S_ISREG(old.st_mode)) {
    descriptor_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail_with(errno);
    return;
  }
  if (exists && ::access(target_.c_str(), W_OK) != 0) fail_with(errno);
  partial_ = target_;
  partial_ += ".partial";
  open_partial();
  if (exists && ::fchmod(descriptor_, old.st_mode & permission_bits) != 0) {
    // not an error: the new file keeps the permissions with which it was created
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  // Removed before close() releases the lock: after that, the file may belong to another writer.
  if (!partial_.empty()) ::unlink(partial_.c_str());
  ::close(descriptor_);
}

void AtomicFile::open_partial() {
  for (;;) {
    int descriptor = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor < 0) fail_with(errno);
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(descriptor);
      fail("{}: another process is writing this file", path_.string());
    }
    // Between open() and flock() the previous writer may have renamed or removed the file. Then the lock is on a file
    // that is no longer PATH.partial, so try again.
    struct stat opened = {}, named = {};
    bool still_named =
        ::fstat(descriptor, &opened) == 0 && ::stat(partial_.c_str(), &named) == 0 && is_same_file(opened, named);
    if (still_named && ::ftruncate(descriptor, 0) == 0) {
      descriptor_ = descriptor;
      return;
    }
    int error_number = errno;
    ::close(descriptor);
    if (still_named) fail_with(error_number);
  }
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  require(descriptor_ >= 0, "{}: written to after commit", path_.string());
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t written = ::write(descriptor_, from, bytes);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_with(errno);
    }
    from += written;
    bytes -= std::size_t(written);
  }
}

void AtomicFile::commit() {
  require(descriptor_ >= 0, "{}: committed twice", path_.string());
  if (!partial_.empty()) {
    bool can_sync = ::fsync(descriptor_) == 0 || errno == EINVAL || errno == ENOTSUP;
    if (!can_sync) fail_with(errno);
    if (::rename(partial_.c_str(), target_.c_str()) != 0) fail_with(errno);
    sync_directory(target_.has_parent_path() ? target_.parent_path() : ".");
  }
  int descriptor = std::exchange(descriptor_, -1);
  // after fsync() an error of close() loses no data; for a device or a pipe, written to without fsync(), it matters
  if (::close(descriptor) != 0 && partial_.empty()) fail_with(errno);
}

void AtomicFile::fail_with(int error_number) const {
  auto name = path_.string();
  auto parent = path_.has_parent_path() ? path_.parent_path().string() : ".";
  if (error_number == EISDIR) fail("{}: is a directory, expected the name of a file", name);
  std::error_code unknown;
  if (error_number == ENOENT)
    fail("{}: cannot be written: {} '{}'", name,
         std::filesystem::is_directory(parent, unknown) ? "no file can be made in" : "there is no directory", parent);
  bool old_remains = !partial_.empty() && std::filesystem::exists(target_, unknown);
  fail("{}: cannot be written: {}{}", name, reason(error_number), old_remains ? "; the old file is untouched" : "");
}

void write_file_atomically(const std::filesystem::path& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents);
  file.commit();
}

}  // namespace fovea
