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

#include "tensor/support/warning.h"

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

std::size_t stored_bytes(std::string_view what, const Shape& shape, const StoredType& type) {
  std::size_t bytes = type.element_bytes();
  // Counts sizes of 0 as 1: a shape such as [2^40, 2^40, 0] is refused too, because its strides would overflow.
  for (std::int64_t size : shape) {
    bool overflows = __builtin_mul_overflow(bytes, static_cast<std::size_t>(std::max<std::int64_t>(size, 1)), &bytes);
    require(!overflows && bytes <= std::numeric_limits<std::int64_t>::max(), "{}: {} {} is too large for any file",
            what, type.description(), shape);
  }
  return std::find(shape.begin(), shape.end(), 0) == shape.end() ? bytes : 0;
}

namespace {

/// The f32 of the same value as these 16 bits. Subnormal numbers, with an exponent of 0, are multiples of 2^-24, which
/// are normal in f32: no step of the computation is subnormal, so that processors which flush such numbers agree.
float widened(std::uint16_t half) {
  constexpr std::uint32_t least_normal = 1 << 10, infinity = 31 << 10, bias_difference = 127 - 15;
  const std::uint32_t magnitude = half & 0x7fffu, fraction_shift = 23 - 10;
  float value = 0x1p-24f * static_cast<float>(magnitude);
  if (magnitude >= infinity)
    value = std::bit_cast<float>(0x7f800000u | magnitude << fraction_shift);
  else if (magnitude >= least_normal)
    value = std::bit_cast<float>((magnitude << fraction_shift) + (bias_difference << 23));
  return half == magnitude ? value : -value;
}

/// Reads half-precision numbers into the second half of the memory and widens them from there, in order: the place of a
/// wide number is never behind that of the half-precision number that it replaces.
void read_half(const ByteSource& source, std::size_t offset, const Tensor& to) {
  warn(source.name() + ": has half-precision numbers (F16), which are read as f32");
  auto* wide = reinterpret_cast<std::byte*>(to.mutable_address());
  const std::size_t count = to.bytes() / sizeof(float);
  const std::byte* half = wide + count * sizeof(std::uint16_t);
  source.read(offset, wide + count * sizeof(std::uint16_t), count * sizeof(std::uint16_t));
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, half + i * sizeof(bits), sizeof(bits));
    const float value = widened(bits);
    std::memcpy(wide + i * sizeof(value), &value, sizeof(value));
  }
}

}  // namespace

void read_elements(const ByteSource& source, std::size_t offset, std::string_view what, const StoredType& type,
                   const Tensor& to) {
  if (type.is_half) return read_half(source, offset, to);
  source.read(offset, to.mutable_address(), to.bytes());
  if (to.dtype() != DType::boolean) return;
  auto* first = reinterpret_cast<const unsigned char*>(to.mutable_address());
  auto* last = first + to.bytes();
  auto* bad = std::find_if(first, last, [](unsigned char byte) { return byte > 1; });
  require(bad == last, "{}: element {} is {}, a bool is 0 or 1", what, bad - first, bad == last ? 0 : int{*bad});
}

}  // namespace fovea
