#include "experiments/support/reproduce/item_outputs.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <set>

#include <fmt/chrono.h>

#include "experiments/support/report/run_collection.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace fs = std::filesystem;

std::string text_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<PlannedItem> planned_items(const NeededRuns& needed, const std::vector<std::string>& ids) {
  std::vector<PlannedItem> items;
  for (const Item& item : chosen_items(load_items(needed.tier()), ids)) {
    PlannedItem& planned = items.emplace_back(PlannedItem{item, needed.runs_of(item), {}});
    const fs::path directory = needed.places().out / "items" / item.id;
    for (const ItemCommand& command : item.commands) {
      const std::vector<std::string> models = needed.models_of(command);
      const bool lacks_model = std::ranges::any_of(
          models, [&](const std::string& run) { return needed.is_finished(run) && !needed.is_made(run); });
      const bool lacks_data =
          command.text.find("{data}") != std::string::npos && !fs::is_directory(needed.places().data);
      planned.steps.push_back({command,
                               needed.arguments(command, directory),
                               directory / fmt::format("{}.txt", planned.steps.size() + 1),
                               !lacks_model && !lacks_data,
                               {{"tier", needed.tier()},
                                {"command", substituted(command.text, variables_of(needed.tier()))},
                                {"runs", models}}});
    }
  }
  return items;
}

std::string command_line(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted_for_shell(word);
  return text;
}

// ---- Running

namespace {

/// The words for a shell, with the path of the program as the first one.
std::string shell_command(std::vector<std::string> words) {
  words.front() = path_of_program(words.front()).string();
  return "OMP_NUM_THREADS=1 " + command_line(words);
}

/// A shell would not wait for its program after Ctrl-C without a trap.
constexpr const char* waits_for_programs = "trap : INT TERM; ";

/// Runs a command, whose output goes into a log. If it fails, the log's last line is printed.
std::string logged(const std::string& command, const fs::path& log) {
  const std::string file = quoted_for_shell(log.string());
  return fmt::format("{{ {}; }} > {} 2>&1 || {{ tail -n 1 {}; exit 1; }}", command, file, file);
}

NinjaStep step_of(const NeededRuns& needed, const std::string& name) {
  const RunJob& job = needed.jobs().at(name);
  const fs::path directory = needed.directory(name);
  std::vector<std::string> words = needed.arguments(name);
  words.insert(words.begin(), job.program);
  std::string command = shell_command(std::move(words));
  if (job.kind == RunJob::Kind::test)  // begins anew
    command = fmt::format("rm -rf {} && {}", quoted_for_shell(directory.string()), command);
  NinjaStep step{directory / "result.json",
                 {},
                 waits_for_programs + logged(command, needed.places().out / "logs" / (name + ".txt")),
                 fmt::format("{} ({})", job.made_for.front(), name)};
  if (!job.needs.empty()) step.inputs.push_back(needed.directory(job.needs) / "result.json");
  return step;
}

/// A command follows those before it in its item, because it may read what they wrote. The first one begins with an
/// empty directory: programs do not replace what they wrote before.
NinjaStep step_of(const NeededRuns& needed, const PlannedItem& item, const Step& step, const fs::path& before) {
  const std::string output = quoted_for_shell(step.output.string());
  const std::string directory = quoted_for_shell(step.output.parent_path().string());
  NinjaStep made{step.output, {path_of_program(step.words.front())}, "", item.id + ": " + step.command.text};
  for (const std::string& run : needed.models_of(step.command))
    made.inputs.push_back(needed.directory(run) / "result.json");
  if (!before.empty()) made.inputs.push_back(before);
  made.command = before.empty() ? fmt::format("rm -rf {} && mkdir -p {} && ", directory, directory)
                                : fmt::format("rm -f {} && ", output);
  const fs::path log = fs::path(step.output).replace_extension(".log");
  made.command += logged(shell_command(step.words), log);
  made.command =
      fmt::format("{}{} && mv {} {}", waits_for_programs, made.command, quoted_for_shell(log.string()), output);
  return made;
}

}  // namespace

std::vector<NinjaStep> ninja_steps(const NeededRuns& needed, const std::vector<PlannedItem>& items) {
  std::vector<NinjaStep> steps;
  std::set<std::string> known;
  const std::function<void(const std::string&)> add = [&](const std::string& run) {
    if (!known.insert(run).second) return;
    const std::string& needs = needed.jobs().at(run).needs;
    if (!needs.empty()) add(needs);  // also a kept one, which has no model
    steps.push_back(step_of(needed, run));
  };
  for (const PlannedItem& item : items) {
    for (const std::string& run : item.runs)
      if (!needed.is_finished(run) || needed.is_made(run)) add(run);
    fs::path before;
    for (const Step& step : item.steps) {
      if (!step.has_inputs) continue;
      steps.push_back(step_of(needed, item, step, before));
      before = step.output;
    }
  }
  return steps;
}

// ---- Outputs

namespace {

/// The figures that a command wrote, which lie beside its output.
std::vector<fs::path> figure_files(const Step& step, const fs::path& directory) {
  std::vector<fs::path> files;
  for (const fs::path word : step.words)
    if (word.extension() == ".svg" && fs::exists(directory / word.filename()))
      files.push_back(directory / word.filename());
  return files;
}

/// The text of an output or figure without the names of machines and directories.
std::string without_names(std::string text, const NeededRuns::Places& places) {
  text = without_origin(text);
  const std::pair<std::string, const char*> named[] = {{places.out.string() + "/", "{out}/"},
                                                       {places.data.string() + "/", "{data}/"}};
  for (const auto& [directory, name] : named)
    for (std::size_t at = 0; directory != "/" && (at = text.find(directory, at)) != std::string::npos;)
      text.replace(at, directory.size(), name);
  return text;
}

/// The time at which a file was written, and this version and machine.
Json start_of(const fs::path& file) {
  Json start = start_without_places(start_entry(""));
  const auto time = std::chrono::file_clock::to_sys(fs::last_write_time(file));
  start["started"] = fmt::format(
      "{:%Y-%m-%dT%H:%M:%SZ}",
      fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::time_point_cast<std::chrono::seconds>(time))));
  return start;
}

}  // namespace

std::optional<StepOutput> output_of(const NeededRuns& needed, const PlannedItem& item, const Step& step) {
  if (step.has_inputs && fs::exists(step.output))
    return StepOutput{command_line(step.words), step.output, figure_files(step, step.output.parent_path()), ""};
  const bool has_failed = step.has_inputs && fs::exists(step.output.parent_path());
  const fs::path text = needed.places().kept / "items" / item.id / step.output.filename();
  const fs::path status = fs::path(text).replace_extension(".json");
  if (has_failed || !step.command.is_kept || !fs::exists(status)) return {};
  const Json json = load_json(status);
  std::optional<StepOutput> output;
  reading_json(status.string(), [&] {
    if (json.at("identity") != step.identity) return;
    require(fs::exists(text), "{}: the file is missing; {} says when it was made", text.string(),
            status.filename().string());
    output = {step.command.text, text, figure_files(step, text.parent_path()), summary_of({json.at("start")})};
  });
  return output;
}

std::size_t keep_outputs(const NeededRuns& needed, const std::vector<PlannedItem>& items, const fs::path& directory) {
  std::size_t kept = 0;
  for (const PlannedItem& item : items)
    for (const Step& step : item.steps) {
      if (!step.command.is_kept || !step.has_inputs || !fs::exists(step.output)) continue;
      const fs::path place = directory / "items" / item.id;
      fs::create_directories(place);
      std::vector<fs::path> files = figure_files(step, step.output.parent_path());
      files.push_back(step.output);
      for (const fs::path& file : files)
        write_file_atomically(place / file.filename(), without_names(text_of_file(file), needed.places()));
      save_json((place / step.output.filename()).replace_extension(".json"),
                {{"identity", step.identity}, {"start", start_of(step.output)}});
      ++kept;
    }
  return kept;
}

namespace {

/// A command's output; of a long one the first lines and the last, which often are its summary, and where the others
/// are.
std::string shortened(const fs::path& output, const fs::path& from) {
  constexpr std::size_t first = 10, last = 30;
  const std::string text = text_of_file(output);
  const std::vector<std::string_view> lines = split_columns(text, '\n');
  if (lines.size() <= first + last + 1) return text;
  std::string kept;
  for (std::size_t k = 0; k < lines.size(); ++k) {
    if (k == first)
      kept +=
          fmt::format("... ({} more lines: {})\n", lines.size() - first - last, fs::relative(output, from).string());
    if (k < first || k + last >= lines.size()) kept += fmt::format("{}\n", lines[k]);
  }
  kept.pop_back();
  return kept;
}

}  // namespace

void add_outputs(Finding& section, const NeededRuns& needed, const PlannedItem& item, const fs::path& from) {
  std::set<std::string> known;
  for (const Step& step : item.steps) {
    const std::optional<StepOutput> output = output_of(needed, item, step);
    if (!output) {
      const fs::path log = fs::path(step.output).replace_extension(".log");
      if (step.has_inputs)
        section.outputs.push_back(fmt::format("$ {}\n{}", command_line(step.words), shortened(log, from)));
      continue;
    }
    if (!output->origin.empty() && known.insert(output->origin).second)
      section.notes.push_back(fmt::format("Outputs that are kept with the records, made {}.", output->origin));
    section.outputs.push_back(fmt::format("$ {}\n{}", output->command, shortened(output->text, from)));
    for (const fs::path& file : output->figures) {
      if (!known.insert(file.string()).second) continue;
      const std::string svg = text_of_file(file);
      section.figures.emplace_back(svg.substr(std::min(svg.find("<svg"), svg.size())),
                                   fs::relative(file, from).string());
    }
  }
}

}  // namespace fovea
