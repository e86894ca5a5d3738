/// CRC-32 checksums, in hexadecimal: "cbf43926" is that of "123456789".
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace fovea {

std::string checksum_of(std::string_view bytes);
/// The checksum of a file's content. Throws Error if the file cannot be read.
std::string file_checksum(const std::filesystem::path& path);

}  // namespace fovea
