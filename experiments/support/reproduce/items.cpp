#include "experiments/support/reproduce/items.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>

#include <fmt/chrono.h>

#include "experiments/support/program/files.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"
#include "tensor/support/suggestion.h"

namespace fovea {

namespace fs = std::filesystem;

// ---- Items as data

namespace {

using Texts = std::vector<std::string>;

/// The text with each {reference} replaced by what value_of() returns for it, or as it is where that is empty.
std::string with_references(const std::string& text, const std::function<std::string(const std::string&)>& value_of) {
  std::string result;
  for (std::size_t at = 0, next = 0; at < text.size(); at = next) {
    const std::size_t close = text[at] == '{' ? text.find('}', at) : text.npos;
    next = close == text.npos ? at + 1 : close + 1;
    const std::string part = text.substr(at, next - at);
    const std::string value = close == text.npos ? "" : value_of(part.substr(1, part.size() - 2));
    result += value.empty() ? part : value;
  }
  return result;
}

Step step_of(const NeededRuns& needed, const Item& item, const Json& json) {
  Step step{json.at("run"), "", json.value("shows", Texts()), json.value("keep", false)};
  const fs::path directory = needed.places().out / "items" / item.id, data = needed.places().data;
  const std::string command = substituted(step.text, variables_of(needed.tier()));
  bool reads_data = false;
  step.line = with_references(command, [&](const std::string& reference) -> std::string {
    const std::string run = needed.run_of(reference);
    if (!run.empty()) step.models.push_back(run);
    reads_data = reads_data || reference == "data";
    const fs::path path = !run.empty()          ? needed.directory(run)
                          : reference == "out"  ? directory
                          : reference == "data" ? data
                                                : fs::path();  // braces of the program's own
    return path.empty() ? "" : quoted_for_shell(path.string());
  });
  const bool lacks_model = std::ranges::any_of(
      step.models, [&](const std::string& run) { return needed.is_finished(run) && !needed.is_made(run); });
  step.output = directory / fmt::format("{}.txt", item.steps.size() + 1);
  step.has_inputs = !lacks_model && (!reads_data || fs::is_directory(data));
  step.identity = {{"tier", needed.tier()}, {"command", command}, {"runs", step.models}};
  return step;
}

/// Keeps the items that are chosen by their ids or beginnings of ids.
void choose(std::vector<Item>& items, const Texts& ids) {
  Texts known;
  for (const Item& item : items) known.push_back(item.id);
  std::set<std::string> chosen;
  for (const std::string& id : ids) {
    const bool is_whole = std::ranges::count(known, id) > 0;  // "N-T1" is not "N-T11"
    const auto is_meant = [&](const std::string& one) { return is_whole ? one == id : one.starts_with(id); };
    require(std::ranges::any_of(known, is_meant), "there is no item '{}'{}; `reproduce --list` prints them", id,
            did_you_mean(id, known));
    std::ranges::copy_if(known, std::inserter(chosen, chosen.end()), is_meant);
  }
  if (!ids.empty()) std::erase_if(items, [&](const Item& item) { return !chosen.contains(item.id); });
}

}  // namespace

std::vector<Item> load_items(const NeededRuns& needed, const Texts& ids) {
  const fs::path path = fs::path(sheets_directory()) / "items.json";
  const Json all = load_json(path);
  std::vector<Item> items;
  reading_json(path.string(), [&] {
    for (const Json& json : all) {
      Item& item = items.emplace_back(
          Item{json.at("id"), json.at("title"), json.value("shows", ""), json.value("sheets", Texts())});
      for (const Json& command : json.value("commands", std::vector<Json>())) {
        const Texts tiers = command.value("tiers", Texts());
        if (tiers.empty() || std::ranges::count(tiers, needed.tier()) > 0)
          item.steps.push_back(step_of(needed, item, command));
      }
      for (const std::string& sheet : item.sheets) needed.append_runs(item.runs, sheet);
      for (const Step& step : item.steps)
        for (const std::string& run : step.models) needed.append(item.runs, run);
    }
  });
  choose(items, ids);
  return items;
}

std::string command_line(const Texts& words) {
  std::string text;
  for (const std::string& word : words) append_word(text, quoted_for_shell(word));
  return text;
}

// ---- Running

namespace {

NinjaStep step_of(const NeededRuns& needed, const std::string& name) {
  const RunJob& job = needed.jobs().at(name);
  const fs::path directory = needed.directory(name);
  Texts words = needed.arguments(name);
  words.insert(words.begin(), job.program);
  std::string command = program_command(std::move(words), needed.places().out / "logs" / (name + ".txt"), 1);
  if (job.kind == RunJob::Kind::test)  // begins anew
    command = fmt::format("rm -rf {} && {}", quoted_for_shell(directory.string()), command);
  NinjaStep step{directory / "result.json", {}, command, fmt::format("{} ({})", job.made_for.front(), name)};
  if (!job.needs.empty()) step.inputs.push_back(needed.directory(job.needs) / "result.json");
  return step;
}

/// A command follows those before it in its item, because it may read what they wrote. The first one begins with an
/// empty directory: programs do not replace what they wrote before. What it prints is a log until it has succeeded; if
/// it fails, the log's last line is printed. A shell would not wait for its program after Ctrl-C without a trap.
NinjaStep step_of(const NeededRuns& needed, const Item& item, const Step& step, const fs::path& before) {
  const auto quoted = [](const fs::path& path) { return quoted_for_shell(path.string()); };
  const fs::path directory = step.output.parent_path(), log = fs::path(step.output).replace_extension(".log");
  const std::string name = step.line.substr(0, step.line.find(' '));
  NinjaStep made{step.output, {path_of_program(name)}, "", item.id + ": " + step.text};
  for (const std::string& run : step.models) made.inputs.push_back(needed.directory(run) / "result.json");
  if (!before.empty()) made.inputs.push_back(before);
  made.command = before.empty() ? fmt::format("rm -rf {0} && mkdir -p {0}", quoted(directory))
                                : fmt::format("rm -f {}", quoted(step.output));
  made.command = fmt::format(
      "trap : INT TERM; {0} && {{ OMP_NUM_THREADS=1 {1}{2}; }} > {3} 2>&1 || {{ tail -n 1 {3}; exit 1; }}; mv {3} {4}",
      made.command, quoted(path_of_program(name)), step.line.substr(name.size()), quoted(log), quoted(step.output));
  return made;
}

}  // namespace

std::vector<NinjaStep> ninja_steps(const NeededRuns& needed, const std::vector<Item>& items) {
  std::vector<NinjaStep> steps;
  std::set<std::string> known;
  const std::function<void(const std::string&)> add = [&](const std::string& run) {
    if (!known.insert(run).second) return;
    const std::string& needs = needed.jobs().at(run).needs;
    if (!needs.empty()) add(needs);  // also a kept one, which has no model
    steps.push_back(step_of(needed, run));
  };
  for (const Item& item : items) {
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
  for (const std::string_view word : split_words(step.text))
    if (const fs::path file = directory / fs::path(word).filename(); file.extension() == ".svg" && fs::exists(file))
      files.push_back(file);
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

std::optional<StepOutput> output_of(const NeededRuns& needed, const Item& item, const Step& step) {
  if (step.has_inputs && fs::exists(step.output))
    return StepOutput{step.line, step.output, figure_files(step, step.output.parent_path()), ""};
  const bool has_failed = step.has_inputs && fs::exists(step.output.parent_path());
  const fs::path text = needed.places().kept / "items" / item.id / step.output.filename();
  const fs::path status = fs::path(text).replace_extension(".json");
  if (has_failed || !step.is_kept || !fs::exists(status)) return {};
  const Json json = load_json(status);
  std::optional<StepOutput> output;
  reading_json(status.string(), [&] {
    if (json.at("identity") != step.identity) return;
    require(fs::exists(text), "{}: the file is missing; {} says when it was made", text.string(),
            status.filename().string());
    output = {step.text, text, figure_files(step, text.parent_path()), summary_of({json.at("start")})};
  });
  return output;
}

std::size_t keep_outputs(const NeededRuns& needed, const std::vector<Item>& items, const fs::path& directory) {
  std::size_t kept = 0;
  for (const Item& item : items)
    for (const Step& step : item.steps) {
      if (!step.is_kept || !step.has_inputs || !fs::exists(step.output)) continue;
      const fs::path place = directory / "items" / item.id;
      fs::create_directories(place);
      std::vector<fs::path> files = figure_files(step, step.output.parent_path());
      files.push_back(step.output);
      for (const fs::path& file : files)
        write_file_atomically(place / file.filename(), without_names(contents_of_file(file), needed.places()));
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
  const std::string text = fs::exists(output) ? contents_of_file(output) : "";
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

void add_outputs(Finding& section, const NeededRuns& needed, const Item& item, const fs::path& from) {
  std::set<std::string> known;
  for (const Step& step : item.steps) {
    const std::optional<StepOutput> output = output_of(needed, item, step);
    if (!output) {
      const fs::path log = fs::path(step.output).replace_extension(".log");
      if (step.has_inputs) section.outputs.push_back(fmt::format("$ {}\n{}", step.line, shortened(log, from)));
      continue;
    }
    if (!output->origin.empty() && known.insert(output->origin).second)
      section.notes.push_back(fmt::format("Outputs that are kept with the records, made {}.", output->origin));
    section.outputs.push_back(fmt::format("$ {}\n{}", output->command, shortened(output->text, from)));
    for (const fs::path& file : output->figures) {
      if (!known.insert(file.string()).second) continue;
      const std::string svg = contents_of_file(file);
      section.figures.emplace_back(svg.substr(std::min(svg.find("<svg"), svg.size())),
                                   fs::relative(file, from).string());
    }
  }
}

}  // namespace fovea
