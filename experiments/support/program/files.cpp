#include "experiments/support/program/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>
#include <zlib.h>

#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/suggestion.h"

namespace fovea {

void require_no_pipe(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  require(!std::filesystem::exists(found) || !std::filesystem::is_other(found),
          "{}: is a pipe or device, expected a file", path.string());
}

std::string contents_of_file(const std::filesystem::path& path) {
  require(!std::filesystem::is_directory(path), "{}: is a directory, expected a file", path.string());
  require_no_pipe(path);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be read: {}", path.string(), std::generic_category().message(errno));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string checksum_of(std::string_view bytes) {
  return fmt::format("{:08x}", ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string file_checksum(const std::filesystem::path& path) {
  require_no_pipe(path);
  std::ifstream file(path, std::ios::binary);
  uLong sum = 0;
  std::array<char, 1 << 16> bytes;
  while (file.read(bytes.data(), bytes.size()), file.gcount() > 0)
    sum = ::crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<std::size_t>(file.gcount()));
  require(file.is_open() && !file.bad(), "{}: cannot be read", path.string());
  return fmt::format("{:08x}", sum);
}

std::filesystem::path data_directory(const std::string& name) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path places[] = {program, program / "../../share/fovea", program / "../../experiments",
                                          FOVEA_EXPERIMENTS};
  for (const std::filesystem::path& place : places)
    if (std::filesystem::is_directory(place / name)) return (place / name).lexically_normal();
  fail("{}: the directory is missing; copy experiments/{} of fovea's sources beside the program, into {}", name, name,
       program.string());
}

std::vector<std::string> names_of_data(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data_directory(directory)))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

std::filesystem::path path_of_data(const std::string& kind, const std::string& name,
                                   const std::vector<std::string>& names) {
  if (name.ends_with(".json")) return name;
  require(std::ranges::count(names, name) > 0, "there is no {} '{}'; there are {}, and any .json file{}", kind, name,
          listed(names, ", "), did_you_mean(name, names));
  return data_directory(kind + "s") / (name + ".json");
}

}  // namespace fovea
