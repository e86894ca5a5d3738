#include "tensor/format/byte_source.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fovea {

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian, and so is the machine");

ByteSource::ByteSource(const std::filesystem::path& path) : name_(path.string()) {
  // without O_NONBLOCK, opening a pipe would block until another process opens it for writing
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require(descriptor_ >= 0, "{}: cannot be read: {}", name_, std::generic_category().message(errno));
  struct stat found = {};
  bool is_file = ::fstat(descriptor_, &found) == 0 && S_ISREG(found.st_mode);
  if (!is_file) {
    ::close(descriptor_);
    fail("{}: is a {}, expected a file", name_, S_ISDIR(found.st_mode) ? "directory" : "pipe or device");
  }
  size_ = static_cast<std::size_t>(found.st_size);
}

ByteSource::ByteSource(std::span<const std::byte> bytes, std::string name)
    : name_(std::move(name)), size_(bytes.size()), memory_(bytes) {}

ByteSource::~ByteSource() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ByteSource::read(std::size_t offset, void* to, std::size_t bytes) const {
  require(offset <= size_ && bytes <= size_ - offset, "{}: bytes {} to {} asked for, the file has {}", name_, offset,
          offset + bytes, size_);
  if (bytes == 0) return;
  if (descriptor_ < 0) {
    std::memcpy(to, memory_.data() + offset, bytes);
    return;
  }
  auto* target = static_cast<std::byte*>(to);
  while (bytes > 0) {
    ssize_t got = ::pread(descriptor_, target, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    require(got >= 0, "{}: cannot be read: {}", name_, std::generic_category().message(errno));
    require(got > 0, "{}: became shorter while it was read: byte {} is gone", name_, offset);
    target += got;
    offset += static_cast<std::size_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

std::size_t stored_bytes(std::string_view what, const Shape& shape, DType dtype) {
  std::size_t bytes = size_of(dtype);
  // Counts sizes of 0 as 1: a shape such as [2^40, 2^40, 0] is refused too, because its strides would overflow.
  for (std::int64_t size : shape) {
    bool overflows = __builtin_mul_overflow(bytes, static_cast<std::size_t>(std::max<std::int64_t>(size, 1)), &bytes);
    require(!overflows && bytes <= std::numeric_limits<std::int64_t>::max(), "{}: {} {} is too large for any file",
            what, fovea::name(dtype), shape);
  }
  return std::find(shape.begin(), shape.end(), 0) == shape.end() ? bytes : 0;
}

void read_elements(const ByteSource& source, std::size_t offset, std::string_view what, const Tensor& to) {
  source.read(offset, to.mutable_address(), to.bytes());
  if (to.dtype() != DType::boolean) return;
  auto* first = reinterpret_cast<const unsigned char*>(to.mutable_address());
  auto* last = first + to.bytes();
  auto* bad = std::find_if(first, last, [](unsigned char byte) { return byte > 1; });
  require(bad == last, "{}: element {} is {}, a bool is 0 or 1", what, bad - first, bad == last ? 0 : int{*bad});
}

}  // namespace fovea
