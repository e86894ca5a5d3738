#include "experiments/support/program/growing_file.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "tensor/error.h"

namespace fovea {
namespace {

std::string reason() { return std::generic_category().message(errno); }

}  // namespace

GrowingFile::GrowingFile(std::filesystem::path path, std::size_t kept)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), "abe")) {
  require(file_ && ::ftruncate(::fileno(file_.get()), off_t(kept)) == 0, "{}: cannot be written: {}", path_.string(),
          reason());
  std::setbuf(file_.get(), nullptr);
}

void GrowingFile::append(std::string_view bytes) {
  const bool is_written = std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  require(is_written, "{}: cannot be written: {}", path_.string(), reason());
}

void GrowingFile::sync() {
  const bool is_synced = ::fsync(::fileno(file_.get())) == 0 || errno == EINVAL;
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
