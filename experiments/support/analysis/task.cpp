#include "experiments/support/analysis/task.h"

#include <cstdlib>
#include <iostream>
#include <map>

#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/analysis/run_task.h"
#include "experiments/support/models/sequence_options.h"
#include "experiments/support/program/hugging_face.h"
#include "experiments/support/program/program.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/text/words.h"

namespace fovea {

namespace {

std::map<std::string, Task>& tasks() {
  static std::map<std::string, Task> all;
  return all;
}

}  // namespace

RegisteredTask::RegisteredTask(Task task) {
  const std::string name = task.name;
  if (!tasks().emplace(name, std::move(task)).second) {
    std::cerr << "fovea: two pages register the task '" << name << "'\n";
    std::abort();  // before main(), where nothing catches an error
  }
}

int run_task(const char* name, int argc, char** argv) { return run(name, argc, argv, tasks().at(name).program); }

std::string program_of(const std::filesystem::path& run) {
  require(std::filesystem::is_directory(run), "{}: {}", run.string(),
          std::filesystem::exists(run) ? "is a file, expected the directory of a run"
                                       : "there is no such directory of a run");
  require_trained(run, "");
  if (is_hugging_face(run)) return hugging_face_flags(run).at("program");
  std::string program;
  const std::filesystem::path file = run / "config.json";
  reading_json(file.string(), [&] { program = load_json(file).at("program").get<std::string>(); });
  return program;
}

const Task& task_of(const std::filesystem::path& run) {
  const std::string program = program_of(run);
  const auto found = tasks().find(program);
  std::vector<std::string> names;
  for (const auto& [name, task] : tasks()) names.push_back(name);
  require(found != tasks().end() && found->second.open, "{}: is a run of '{}', which {}; runs of {} can be opened",
          run.string(), program,
          found == tasks().end() ? "this program was not built with (the list `tasks` of experiments/meson.build)"
                                 : "does not say how its runs are opened",
          alternatives(names));
  return found->second;
}

SequenceOptions sequence_options(const std::filesystem::path& run, const std::vector<std::string>& flags) {
  const Task& task = task_of(run);
  require(static_cast<bool>(task.sequence_options),
          "{}: is a run of {}; expected one of a sequence model, such as "
          "translate",
          run.string(), task.name);
  return task.sequence_options(run, flags);
}

}  // namespace fovea
