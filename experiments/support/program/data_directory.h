/// The directories with the data of the experiments: presets, sheets, results.
#pragma once
#include <filesystem>
#include <string>

namespace fovea {

/// The directory experiments/NAME. It is looked for beside the program, in share/fovea of the prefix that the program
/// was installed in, in the source tree that the program's build directory lies in, and in that it was built from.
/// Throws Error if there is none.
std::filesystem::path data_directory(const std::string& name);

}  // namespace fovea
