#include "experiments/support/report/run_collection.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include <fmt/format.h>

#include "experiments/support/record/kept_runs.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

/// Options that say how a run was made, not which model was trained on what.
bool is_of_making(const std::string& option) {
  static const std::set<std::string> names{"seed",    "compare", "seeds",    "search",    "threads",
                                           "device",  "out",     "resume",   "recompute", "checkpoint-every",
                                           "program", "keep",    "made-for", "methods"};
  return names.contains(option);
}

Json model_options(const RunResult& run) {
  Json options = Json::object();
  for (const auto& [name, value] : run.configuration.items())
    if (!is_of_making(name)) options[name] = value;
  return options;
}

std::string data_of(const RunResult& run) { return text_at(run.configuration, "data"); }

}  // namespace

std::string text_at(const Json& object, const std::string& key) {
  if (!object.is_object() || !object.contains(key) || object[key].is_null()) return "";
  return object[key].is_string() ? object[key].get<std::string>() : text_of(object[key]);
}

std::string program_of(const RunResult& run) {
  const std::string program = text_at(run.configuration, "program");
  return program.empty() ? "run" : program;
}

std::string title_of(const RunResult& run) {
  if (!run.row.empty() && run.row != "model") return run.row;
  if (!run.name.empty()) return run.made_for.front();  // a kept run, which has no directory
  const fs::path directory = (fs::current_path() / run.directory / "").lexically_normal().parent_path();
  const bool is_one_of_several = run.number > 0 && directory.filename().string().starts_with("model-");
  return (is_one_of_several ? directory.parent_path() : directory).filename().string();
}

std::string key_of_examples(const RunResult& run) {
  std::string key = program_of(run);
  for (const TestResult& test : run.tests) key += " " + test.key();
  return key;
}

namespace {

std::string title_of_group(const RunResult& run) {
  std::string title = program_of(run) + ": " + data_of(run);
  for (const TestResult& test : run.tests) title += fmt::format(", {}: {} examples", test.set, test.examples.size());
  return title;
}

void add(RunGroup& group, const RunResult& run) {
  for (ComparedRow& row : group.rows) {
    if (!agree_but_for_seed(row.runs.front(), run)) continue;
    const bool is_there = std::ranges::any_of(row.runs, [&](const RunResult& other) { return other.seed == run.seed; });
    if (!is_there) row.runs.push_back(run);
    return;
  }
  group.rows.push_back({title_of(run), run.trial, {run}});
}

/// The place of a run among others: by its number in its comparison, then by the time at which it was made.
auto place_of_run(const fs::path& run) {
  std::error_code none;
  std::int64_t number = 0;
  try {
    if (fs::exists(run / "result.json")) number = load_json(run / "result.json").value("number", std::int64_t{0});
  } catch (const std::exception&) {  // load_result() says what is damaged
  }
  return std::tuple(number, fs::last_write_time(run / "config.json", none), run);
}

void add_runs(LoadedRuns& loaded, std::set<fs::path>& known, const fs::path& directory) {
  std::error_code error;
  if (!known.insert(fs::weakly_canonical(directory, error)).second) return;
  std::vector<RunResult> own;
  try {
    if (std::optional<RunResult> run = load_result(directory))
      own.push_back(std::move(*run));
    else
      own = load_kept_runs(directory);
  } catch (const Error& error) {
    loaded.damaged.emplace_back(error.what());
    return;
  } catch (const fs::filesystem_error& error) {  // a folder that must not be read
    loaded.damaged.push_back(fmt::format("{}: cannot be read: {}", directory.string(), error.code().message()));
    return;
  }
  for (RunResult& run : own) {
    const bool is_trial = run.tests.empty() && run.failure.empty();  // of a search; its test is not recorded
    if (!is_trial) loaded.runs.push_back(std::move(run));
  }
  if (!own.empty()) return;
  std::vector<decltype(place_of_run(directory))> inside;
  for (const auto& entry : fs::directory_iterator(directory, error))
    if (std::error_code a_loop; entry.is_directory(a_loop)) inside.push_back(place_of_run(entry.path()));
  if (error) loaded.damaged.push_back(fmt::format("{}: cannot be read: {}", directory.string(), error.message()));
  std::ranges::sort(inside);
  for (const auto& place : inside) add_runs(loaded, known, std::get<fs::path>(place));
}

}  // namespace

LoadedRuns load_runs(const std::vector<fs::path>& directories) {
  LoadedRuns loaded;
  std::set<fs::path> known;
  for (const fs::path& directory : directories) {
    require(fs::is_directory(directory), "{}: {}", directory.string(),
            fs::exists(directory) ? "is a file, expected the directory of runs" : "there is no such directory");
    const std::size_t before = loaded.runs.size() + loaded.damaged.size();
    const bool is_known = known.contains(fs::weakly_canonical(directory));
    add_runs(loaded, known, directory);
    require(is_known || loaded.runs.size() + loaded.damaged.size() > before,
            "{}: has no finished run (result.json) in it", directory.string());
  }
  return loaded;
}

namespace {

/// Appends to titles that occur several times the options in which their rows differ: "global, --layers 2".
void distinguish(std::vector<ComparedRow>& rows) {
  std::map<std::string, std::vector<std::size_t>> by_title;
  for (std::size_t k = 0; k < rows.size(); ++k) by_title[rows[k].title + rows[k].trial].push_back(k);
  for (const auto& [title, numbers] : by_title) {
    std::vector<ComparedRow> alike;
    for (std::size_t k : numbers) alike.push_back(rows[k]);
    for (const auto& [option, values] : options_of(alike).differing)
      for (std::size_t r = 0; r < numbers.size(); ++r)
        rows[numbers[r]].title += fmt::format(", --{} {}", option, values[r]);
  }
}

/// The options with no spaces in their texts: between the words of a specification they mean nothing.
Json without_spaces(Json options) {
  for (auto& [key, value] : options.items())
    if (value.is_string()) std::erase(value.get_ref<std::string&>(), ' ');
  return options;
}

}  // namespace

std::vector<RunGroup> comparable_groups(const std::vector<RunResult>& runs) {
  std::vector<RunGroup> groups;
  for (const bool is_finished : {true, false})
    for (const RunResult& run : runs) {
      if (run.failure.empty() != is_finished) continue;
      const auto belongs = [&](const RunGroup& group) {
        const RunResult& other = group.rows.front().runs.front();
        if (is_finished) return key_of_examples(other) == key_of_examples(run);
        return program_of(other) == program_of(run) && data_of(other) == data_of(run);  // it has no tests
      };
      auto group = std::ranges::find_if(groups, belongs);
      if (group == groups.end()) group = groups.insert(group, {title_of_group(run), {}});
      add(*group, run);
    }
  for (RunGroup& group : groups) {
    group.rows = without_lost_trials(group.rows);
    distinguish(group.rows);
  }
  return groups;
}

bool agree_but_for_seed(const RunResult& a, const RunResult& b) {
  const bool is_kept = !a.name.empty() || !b.name.empty();
  const Json of_a = without_spaces(model_options(a)), of_b = without_spaces(model_options(b));
  if (!is_kept) return of_a == of_b;
  // A kept run may be older than an option, or have been tested again by other metrics.
  return std::ranges::all_of(of_a.items(), [&](const auto& option) {
    return option.key() == "metrics" || !of_b.contains(option.key()) || of_b[option.key()] == option.value();
  });
}

std::string summary_of(const std::vector<Json>& starts) {
  std::set<std::string> dates, versions, machines, commands;
  for (const Json& start : starts) {
    auto text = [&](const char* key) { return text_at(start, key); };
    constexpr std::size_t length_of_date = 10;  // without the time
    dates.insert(text("started").substr(0, length_of_date));
    versions.insert(fmt::format("{} ({})", text("version"), text("commit")));
    const std::string machine = text("machine"), processor = text("processor");  // a kept run has no machine
    machines.insert(machine.empty() ? processor : fmt::format("{} ({})", machine, processor));
    if (!text("command").empty()) commands.insert(text("command"));
  }
  if (dates.empty()) return "";
  const std::string command = commands.size() == 1  ? ": " + *commands.begin()
                              : commands.size() > 1 ? fmt::format(", by {} commands", commands.size())
                                                    : "";
  return fmt::format("{}{} with fovea {} on {}{}", *dates.begin(),
                     dates.size() > 1 ? " to " + *dates.rbegin() : std::string(), fmt::join(versions, ", "),
                     fmt::join(machines, ", "), command);
}

std::string origin_of(const std::vector<fs::path>& runs, const std::string& command, std::vector<Json> starts) {
  for (const fs::path& run : runs)
    for (Json& start : starts_of(RunResult{.directory = run})) starts.push_back(std::move(start));
  return (starts.empty() ? "" : "Runs made " + summary_of(starts) + "\n") + "Printed " +
         summary_of({start_entry(command)});
}

std::string without_origin(const std::string& text) {
  static const std::regex origin("\n<desc>(Runs made|Printed) [^<]*</desc>|\n(Runs made|Printed) [^\n]*");
  return std::regex_replace(text, origin, "");
}

RowOptions options_of(const std::vector<ComparedRow>& rows) {
  std::vector<Json> all;
  for (const ComparedRow& row : rows) all.push_back(model_options(row.runs.front()));
  RowOptions options;
  std::set<std::string> known;
  for (const Json& one : all)
    for (const auto& [name, value] : one.items()) {
      if (!known.insert(name).second) continue;
      std::vector<std::string> texts;
      for (const Json& other : all) texts.push_back(text_at(other, name));
      if (std::ranges::count(texts, texts.front()) == std::ssize(texts))
        options.common[name] = value;
      else
        options.differing.emplace_back(name, std::move(texts));
    }
  return options;
}

}  // namespace fovea
