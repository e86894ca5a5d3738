/// Tasks: programs that train. Pages register them, and `analyze` opens the runs of every registered one.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/data/text_pair.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/training/experiment.h"

namespace fovea {

class AnalyzedRun;
struct SequenceOptions;

struct Task {
  std::string name;                   ///< of the program
  std::function<void(Cli&)> program;  ///< trains, or uses a trained model
  /// Opens a trained run, with its options overridden by flags, for `analyze`; empty: its models cannot be looked into.
  std::function<std::unique_ptr<AnalyzedRun>(const std::filesystem::path& run, Part part,
                                             const std::vector<std::string>& flags)>
      open = {};
  /// The options of a run of a sequence model, overridden by flags; empty: the task has other models.
  std::function<SequenceOptions(const std::filesystem::path& run, const std::vector<std::string>& flags)>
      sequence_options = {};
};

/// Registers a task, whose name no other one has. Pages have objects of this class outside of all functions.
struct RegisteredTask {
  RegisteredTask(Task task);
};

/// The name of the program whose run this is. Throws Error if the directory is not that of a trained run.
std::string program_of(const std::filesystem::path& run);
/// The task whose run this is. Throws Error for a task that this program was not built with.
const Task& task_of(const std::filesystem::path& run);

/// The options of a run of a task with sequence models, overridden by `flags`. Throws Error for a run of another task.
SequenceOptions sequence_options(const std::filesystem::path& run, const std::vector<std::string>& flags = {});

/// The options of a run, from its config.json, overridden by `flags`; on the CPU. Sets threads and precision.
template <class Options>
Options options_of_run(const std::filesystem::path& run, const std::vector<std::string>& flags = {}) {
  const std::string program = program_of(run), directory = run.string();
  std::vector<const char*> line{program.c_str(), "--config", directory.c_str(), "--device", "cpu"};
  for (const std::string& flag : flags) line.push_back(flag.c_str());
  Cli cli(program, int(line.size()), line.data());
  Options options;
  ExperimentFlags others;
  options.add_to(cli);
  others.add_to(cli);
  cli.parse();
  options.training.apply();
  return options;
}

}  // namespace fovea
