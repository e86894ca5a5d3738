#include "experiments/support/program/data_directory.h"

#include "tensor/error.h"

namespace fovea {

std::filesystem::path data_directory(const std::string& name) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path places[] = {program, program / "../../share/fovea", program / "../../experiments",
                                          FOVEA_EXPERIMENTS};
  for (const std::filesystem::path& place : places)
    if (std::filesystem::is_directory(place / name)) return (place / name).lexically_normal();
  fail("{}: the directory is missing; copy experiments/{} of fovea's sources beside the program, into {}", name, name,
       program.string());
}

}  // namespace fovea
