#include "experiments/support/reproduce/planned_items.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <list>
#include <set>

#include <fmt/core.h>

#include "experiments/support/program/interrupt.h"
#include "experiments/support/program/progress.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/reproduce/rate_search.h"
#include "experiments/support/text/words.h"
#include "experiments/version.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The file beside a command's output that says which command ended how, and when and with which version it was begun.
fs::path status_file(const fs::path& output) { return fs::path(output).replace_extension(".json"); }

fs::path log_of(const NeededRuns& needed, const std::string& run) {
  return needed.places().out / "logs" / (run + ".txt");
}

}  // namespace

std::vector<PlannedItem> planned_items(NeededRuns& needed, const std::vector<std::string>& ids, bool searches) {
  std::vector<PlannedItem> items;
  for (const Item& item : chosen_items(ids)) {
    PlannedItem planned{item, needed.add(item), needed.places().out / "items" / item.id, {}};
    if (searches)
      for (const std::string& run : needed.add_search(item))
        if (std::count(planned.runs.begin(), planned.runs.end(), run) == 0) planned.runs.push_back(run);
    for (const ItemCommand& command : item.commands_at(needed.tier())) {
      const std::string number = std::to_string(planned.steps.size() + 1);
      const std::vector<std::string> models = needed.models_of(command);
      const bool lacks_model = std::any_of(models.begin(), models.end(), [&](const std::string& run) {
        return needed.is_finished(run) && !needed.has_model(run);
      });
      const bool lacks_data =
          command.text.find("{data}") != std::string::npos && !fs::is_directory(needed.places().data);
      planned.steps.push_back({{item.id + " " + number, needed.arguments(command, planned.directory),
                                planned.directory / (number + ".txt")},
                               command,
                               !lacks_model && !lacks_data,
                               {{"tier", needed.tier()},
                                {"command", substituted(command.text, variables_of(needed.tier()))},
                                {"runs", models}}});
    }
    items.push_back(std::move(planned));
  }
  return items;
}

bool is_done(const NeededRuns& needed, const PlannedItem& item, const Step& step) {
  const fs::path file = status_file(step.call.output);
  if (!fs::exists(file)) return false;
  const Json json = load_json(file);
  const bool is_older = std::any_of(item.runs.begin(), item.runs.end(), [&](const std::string& run) {
    const fs::path result = needed.record(run) / "result.json";
    return fs::exists(result) && fs::last_write_time(result) > fs::last_write_time(file);
  });
  return !is_older && json.value("command", "") == command_line(step.call.words) &&
         json.value("commit", "") == commit_text && json.value("status", 1) == 0;
}

std::string command_line(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted_for_shell(word);
  return text;
}

// ---- Running

namespace {

/// A call that can be made when is_ready() holds.
struct Task {
  Call call;
  std::function<bool()> is_ready;
};

/// Makes the calls, each when it is ready, and leaves out those that never are. Without `reported`, which gets the
/// progress of each call, progress is written into its output.
void run_all(const std::string& title, const char* unit, int jobs, const std::vector<Task>& tasks,
             const std::function<void(const Call&, int status, Progress&)>& ended,
             const std::function<void(const Call&, const ProgressReport&)>& reported = {}) {
  if (tasks.empty()) return;
  Progress::Options shown;
  shown.unit = unit;
  Progress progress(title, std::ssize(tasks), shown);
  std::list<const Task*> waiting;
  for (const Task& task : tasks) waiting.push_back(&task);
  auto next = [&]() -> const Call* {
    const auto ready = std::find_if(waiting.begin(), waiting.end(), [](const Task* task) { return task->is_ready(); });
    if (ready == waiting.end()) return nullptr;
    const Task* task = *ready;
    waiting.erase(ready);
    return &task->call;
  };
  const auto ends = [&](const Call& call, int status) {
    progress.advance();
    if (!interrupted()) ended(call, status, progress);
  };
  run_calls(jobs, next, ends, reported);
  progress.finish();
  if (interrupted()) throw Interrupted("stopped; the same command continues");
}

}  // namespace

void make_runs(const NeededRuns& needed, int jobs) {
  std::set<std::string> missing;
  std::function<void(const std::string&)> add = [&](const std::string& name) {
    missing.insert(name);
    const std::string& needs = needed.jobs().at(name).needs;
    if (!needs.empty() && !needed.has_model(needs)) add(needs);
  };
  for (const auto& [name, job] : needed.jobs())
    if (!needed.is_finished(name)) add(name);
  std::vector<Task> tasks;
  for (const std::string& name : missing) {
    const RunJob& job = needed.jobs().at(name);
    const fs::path directory = needed.directory(name);
    if (job.kind == RunJob::Kind::test || !fs::exists(directory / "config.json"))
      fs::remove_all(directory);  // what an interrupted start left
    std::vector<std::string> words = needed.arguments(name);
    words.insert(words.begin(), job.program);
    tasks.push_back({{name, std::move(words), log_of(needed, name)},
                     [&needed, &job] { return job.needs.empty() || needed.has_model(job.needs); }});
  }
  run_all("training and testing", "runs", jobs, tasks, [](const Call& call, int status, Progress& progress) {
    if (status != 0) progress.print(fmt::format("{}: failed, see {}", call.name, call.output.string()));
  });
}

void run_steps(const NeededRuns& needed, const std::vector<PlannedItem>& items, int jobs) {
  std::vector<Task> tasks;
  for (const PlannedItem& item : items) {
    const bool has_all = std::all_of(item.steps.begin(), item.steps.end(),
                                     [&](const Step& step) { return !step.has_inputs || is_done(needed, item, step); });
    if (has_all) continue;
    fs::remove_all(item.directory);  // commands refuse to overwrite what they wrote before
    fs::path before;                 // the status of the item's step before
    for (const Step& step : item.steps) {
      if (!step.has_inputs) continue;
      tasks.push_back({step.call, [before] { return before.empty() || fs::exists(before); }});
      before = status_file(step.call.output);
    }
  }
  const auto save_status = [](const Call& call, int status, Progress&) {
    save_json(status_file(call.output), {{"command", command_line(call.words)},
                                         {"status", status},
                                         {"commit", commit_text},
                                         {"start", start_without_places(start_entry(""))}});
  };
  const auto ignored = [](const Call&, const ProgressReport&) {};
  run_all("analysing", "commands", jobs, tasks, save_status, ignored);
}

// ---- Outputs among the records

namespace {

/// The directory of an item's outputs below that of the records.
fs::path kept_directory(const fs::path& records, const PlannedItem& item) { return records / "items" / item.id; }

/// The figures that a command wrote, which lie beside its output.
std::vector<fs::path> figure_files(const Step& step, const fs::path& directory) {
  std::vector<fs::path> files;
  for (const fs::path word : step.call.words)
    if (word.extension() == ".svg" && fs::exists(directory / word.filename()))
      files.push_back(directory / word.filename());
  return files;
}

/// The text of an output or figure without the names of machines and directories.
std::string without_names(std::string text, const NeededRuns::Places& places) {
  text = without_origin(std::move(text));
  const std::pair<std::string, const char*> named[] = {{places.out.string() + "/", "{out}/"},
                                                       {places.data.string() + "/", "{data}/"}};
  for (const auto& [directory, name] : named)
    for (std::size_t at = 0; directory != "/" && (at = text.find(directory, at)) != std::string::npos;)
      text.replace(at, directory.size(), name);
  return text;
}

}  // namespace

std::optional<StepOutput> output_of(const NeededRuns& needed, const PlannedItem& item, const Step& step) {
  const fs::path own = step.call.output;
  const fs::path kept = kept_directory(needed.places().records, item) / own.filename();
  const bool is_own = step.has_inputs && is_done(needed, item, step);
  const bool was_run_here = step.has_inputs && fs::exists(status_file(own));
  if (!is_own && (was_run_here || !step.command.is_kept || !fs::exists(status_file(kept)))) return {};
  const fs::path file = is_own ? own : kept;
  std::optional<StepOutput> output;
  const Json status = load_json(status_file(file));
  reading_json(status_file(file).string(), [&] {
    if (!is_own && status.at("identity") != step.identity) return;
    require(fs::exists(file), "{}: the file is missing; {} says when it was made", file.string(),
            status_file(file).filename().string());
    const Json start = status.value("start", Json());
    output = {.command = is_own ? command_line(step.call.words) : step.command.text,
              .text = file,
              .figures = figure_files(step, file.parent_path()),
              .origin = start.empty() ? "" : summary_of({start}),
              .is_kept = !is_own};
  });
  return output;
}

std::size_t keep_outputs(const NeededRuns& needed, const std::vector<PlannedItem>& items, const fs::path& records) {
  std::size_t kept = 0;
  for (const PlannedItem& item : items)
    for (const Step& step : item.steps) {
      if (!step.command.is_kept || !step.has_inputs || !is_done(needed, item, step)) continue;
      const fs::path directory = kept_directory(records, item);
      fs::create_directories(directory);
      const StepOutput output = output_of(needed, item, step).value();
      for (const fs::path& figure : output.figures)
        write_file_atomically(directory / figure.filename(), without_names(contents(figure), needed.places()));
      const fs::path file = directory / output.text.filename();
      write_file_atomically(file, without_names(contents(output.text), needed.places()));
      save_json(status_file(file),
                {{"identity", step.identity}, {"start", load_json(status_file(output.text))["start"]}});
      ++kept;
    }
  return kept;
}

// ---- Reporting

std::vector<std::string> problems_of(NeededRuns& needed, const PlannedItem& item) {
  std::vector<std::string> problems;
  for (const std::string& run : item.runs)
    if (!needed.is_finished(run))
      problems.push_back(fmt::format("{} has no result, see {}", run, log_of(needed, run).string()));
    else if (const std::string failure = needed.failure(run); !failure.empty())
      problems.push_back(fmt::format("{} failed: {}", run, failure));
  for (const Sheet& sheet : item.sheets) {
    const SheetRuns runs = needed.finished(sheet);
    if (const std::string why = untrained(sheet, runs, needed.tier()); !why.empty())
      problems.push_back("untrained: " + why);
    for (const CheckedClaim& one : check_claims(sheet, runs))
      if (one.claim.is_required && one.holds != true)
        problems.push_back(one.holds ? fmt::format("must hold, and does not: {} ({})", one.claim.text, one.numbers)
                                     : fmt::format("must hold, and is not measured: {}", one.claim.text));
  }
  for (const Step& step : item.steps) {
    if (!step.has_inputs) continue;
    if (!is_done(needed, item, step)) {
      problems.push_back("failed: " + step.command.text);
      continue;
    }
    const std::string output = contents(step.call.output);
    for (const std::string& text : step.command.shows)
      if (output.find(text) == std::string::npos)
        problems.push_back(fmt::format("'{}' is not in the output of {}", text, step.command.text));
  }
  return problems;
}

namespace {

/// A command's output; of a long one the first lines and the last, which often are its summary, and where the others
/// are.
std::string short_output(const fs::path& output, const fs::path& from) {
  constexpr std::size_t first = 10, last = 30;
  const std::string text = contents(output);
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
  std::set<fs::path> drawn;
  std::set<std::string> origins;
  for (const Step& step : item.steps) {
    const std::optional<StepOutput> output = output_of(needed, item, step);
    if (!output) {
      if (step.has_inputs)
        section.outputs.push_back(
            fmt::format("$ {}\n{}", command_line(step.call.words), short_output(step.call.output, from)));
      continue;
    }
    if (output->is_kept && origins.insert(output->origin).second)
      section.notes.push_back(fmt::format("Outputs that are kept with the records, made {}.", output->origin));
    section.outputs.push_back(fmt::format("$ {}\n{}", output->command, short_output(output->text, from)));
    for (const fs::path& file : output->figures) {
      if (!drawn.insert(file).second) continue;
      const std::string svg = contents(file);
      section.figures.emplace_back(
          Picture{svg.substr(std::min(svg.find("<svg"), svg.size())), fs::relative(file, from).string()});
    }
  }
}

namespace {

Finding section_on(NeededRuns& needed, const PlannedItem& item, const std::vector<std::string>& problems) {
  const fs::path& out = needed.places().out;
  Finding section{.title = item.id, .subtitle = item.title};
  section.notes.push_back(problems.empty() ? "State: done." : "State: not done.");
  for (const std::string& problem : problems) section.notes.push_back("Problem: " + problem + ".");
  if (!item.shows.empty()) section.notes.push_back("Must show: " + item.shows);
  for (const Sheet& sheet : item.sheets) {
    const auto add = [&](const SheetRuns& runs, const std::string& rates) {
      for (Finding::NamedTable& table : tables_of(sheet, runs)) {
        table.name += rates;
        section.tables.push_back(std::move(table));
      }
    };
    add(needed.finished(sheet), "");
    if (const SheetRuns runs = searched_runs(needed, sheet); !runs.empty()) add(runs, ", with searched learning rates");
    for (Finding::NamedTable& table : search_tables(needed, sheet)) section.tables.push_back(std::move(table));
  }
  add_outputs(section, needed, item, out);
  for (const Step& step : item.steps)
    if (!step.has_inputs && !output_of(needed, item, step))
      section.notes.push_back("Not run, because its trained model or its data are not at hand: " +
                              command_line(step.call.words));
  return section;
}

}  // namespace

Finding report_on(NeededRuns& needed, const std::vector<PlannedItem>& items,
                  const std::vector<std::vector<std::string>>& problems) {
  Finding report{.title = "Tables and figures of the papers", .subtitle = "tier " + needed.tier()};
  Table summary({"item", "", "state"});
  for (std::size_t k = 0; k < items.size(); ++k) {
    summary.row({items[k].id, items[k].title, problems[k].empty() ? "done" : problems[k].front()});
    report.sections.push_back(section_on(needed, items[k], problems[k]));
  }
  const auto done =
      std::count_if(problems.begin(), problems.end(), [](const auto& of_item) { return of_item.empty(); });
  report.notes = {fmt::format(
      "{} of {} items are done at the tier '{}'. Data and sizes are not the papers': compare the order of rows and "
      "the distances between them, not values. 'Must hold' fails an item; other statements are expectations, "
      "printed with what was measured.",
      done, items.size(), needed.tier())};
  for (const RunResult* run : needed.read_runs()) report.runs.push_back(run->directory);
  report.tables = {{"", summary}};
  return report;
}

}  // namespace fovea
