#include "experiments/support/program/checksum.h"

#include <array>
#include <fstream>

#include <fmt/format.h>
#include <zlib.h>

#include "tensor/error.h"

namespace fovea {

namespace {

uLong with_bytes(uLong sum, const char* bytes, std::size_t count) {
  return ::crc32_z(sum, reinterpret_cast<const Bytef*>(bytes), count);
}

}  // namespace

std::string checksum_of(std::string_view bytes) {
  return fmt::format("{:08x}", with_bytes(0, bytes.data(), bytes.size()));
}

std::string file_checksum(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be read", path.string());
  uLong sum = 0;
  std::array<char, 1 << 16> bytes;
  while (file.read(bytes.data(), bytes.size()), file.gcount() > 0)
    sum = with_bytes(sum, bytes.data(), static_cast<std::size_t>(file.gcount()));
  return fmt::format("{:08x}", sum);
}

}  // namespace fovea
