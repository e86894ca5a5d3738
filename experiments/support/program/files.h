/// Contents and checksums of files, and the directories with the data of the experiments.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

/// Throws Error for a pipe or a device: to open a pipe may take for ever.
void require_no_pipe(const std::filesystem::path& path);

/// The bytes of a file. Throws Error for a directory, a pipe, and a file that cannot be read.
std::string contents_of_file(const std::filesystem::path& path);

/// The CRC-32 in hexadecimal: "cbf43926" is that of "123456789".
std::string checksum_of(std::string_view bytes);
/// The checksum of a file's content. Throws Error if the file cannot be read.
std::string file_checksum(const std::filesystem::path& path);

/// The directory experiments/NAME: presets, sheets or results. It is looked for beside the program, in share/fovea of
/// the prefix that the program was installed in, in the source tree that the program's build directory lies in, and in
/// that it was built from. Throws Error if there is none.
std::filesystem::path data_directory(const std::string& name);

/// The names of the .json files in data_directory(directory), sorted.
std::vector<std::string> names_of_data(const std::string& directory);
/// The path of a preset or sheet (`kind`): the file NAME.json of its data_directory(), or any other .json file. Throws
/// Error for a name that is none of `names`.
std::filesystem::path path_of_data(const std::string& kind, const std::string& name,
                                   const std::vector<std::string>& names);

}  // namespace fovea
