#include "experiments/support/program/growing_file.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "tensor/error.h"

namespace fovea {
namespace {

std::string reason() { return std::generic_category().message(errno); }

}  // namespace

GrowingFile::GrowingFile(std::filesystem::path path, std::size_t kept) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  bool is_open = descriptor_ >= 0 && ::ftruncate(descriptor_, off_t(kept)) == 0;
  require(is_open, "{}: cannot be written: {}", path_.string(), reason());
}

GrowingFile::GrowingFile(GrowingFile&& other) noexcept { *this = std::move(other); }

GrowingFile& GrowingFile::operator=(GrowingFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

GrowingFile::~GrowingFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void GrowingFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    require(written >= 0, "{}: cannot be written: {}", path_.string(), reason());
    bytes.remove_prefix(std::size_t(written));
  }
}

void GrowingFile::sync() {
  bool is_synced = ::fsync(descriptor_) == 0 || errno == EINVAL;
  require(is_synced, "{}: cannot be written: {}", path_.string(), reason());
}

std::string contents_of_file(const std::filesystem::path& path) {
  require(!std::filesystem::is_directory(path), "{}: is a directory, expected a file", path.string());
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be read: {}", path.string(), reason());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace fovea
