/// Build files for ninja, which runs the commands whose outputs are missing or older than their inputs, several at a
/// time, and goes on after a failure.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace fovea {

struct NinjaStep {
  std::filesystem::path output;
  std::vector<std::filesystem::path> inputs;  ///< files that must be there before, and make the output old if changed
  std::string command;                        ///< for a shell
  std::string description;                    ///< is shown while the command runs
};

/// Returns the text of a build file with these steps. ninja keeps its log and its database of dependencies in
/// `directory`.
std::string ninja_file(const std::vector<NinjaStep>& steps, const std::filesystem::path& directory);

/// Makes the outputs of such a file in a child process, `jobs` at a time. Returns whether all were made. Throws
/// Interrupted, when the commands have ended, after Ctrl-C or SIGTERM, and Error without ninja.
bool run_ninja(const std::filesystem::path& file, int jobs);

/// The command that runs a program of this project with these words, on a number of threads. What it prints is written
/// into the file `output`. Its threads wait for one another with few spins: libgomp's usual 15 ms slow other programs
/// on the same cores down (two trainings on two cores: 3.3 steps a second each, with few spins 5.6).
std::string program_command(std::vector<std::string> words, const std::filesystem::path& output, int threads);

/// The environment variable with which a program ends if the process that has started it is killed.
inline constexpr const char* ends_with_parent_variable = "FOVEA_ENDS_WITH_PARENT";

/// The path of a program of this project: it lies beside the one that runs.
std::filesystem::path path_of_program(const std::string& name);

}  // namespace fovea
