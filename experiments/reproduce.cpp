// Every table and figure of the five papers: trains what is missing, and writes one report.

#include <algorithm>
#include <set>

#include <omp.h>

#include "experiments/support/program/program.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/record/kept_runs.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/reproduce/pages.h"
#include "experiments/support/text/words.h"
#include "tensor/support/atomic_file.h"
#include "tensor/support/control_groups.h"

namespace {

using namespace fovea;
namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> items;
  std::string tier = "smoke";
  std::int64_t jobs = 0;
  bool list = false, commands = false;
  fs::path out, data = "data", kept = kept_runs_directory(), keep, results;

  void add_to(Cli& cli) {
    cli.option("items", items, "items to reproduce, such as N-T1, or Y for all that begin with Y; default: all");
    cli.option(
           "--tier", tier,
           "smoke: minutes on 2 cores; mini: hours; paper: the papers' own settings, of which only the commands and "
           "machines are printed")
        .one_of({"smoke", "mini", "paper"});
    cli.option("--jobs", jobs, "programs that run at a time, each on one thread; 0: one per core").range(0, 1024);
    cli.option("--list", list, "print the items with their state and the time that they still take, and exit");
    cli.option(
        "--commands", commands,
        "print the commands that make the missing runs, and those of the items; with --tier paper this is always "
        "so");
    cli.option("--out", out, "directory of runs and report; default: runs/reproduce-TIER");
    cli.option("--records", kept, "directory of kept runs, which are not made again");
    cli.option("--keep-records", keep,
               "add the finished runs, and outputs of commands, to the kept ones in this directory, both without texts "
               "of the data");
    cli.option("--results", results,
               "write a Markdown page into this file, from the finished runs: how methods differ from plain attention, "
               "and which statements of the papers hold. Nothing is trained");
    cli.option("--data", data,
               "directory of the public data sets that the tier mini reads: multi30k, small_parallel_enja, sst, imdb, "
               "sva_linzen, lm1b_sample, aeslc (experiments/data.md)");
  }
};

/// Throws Error for flags that exclude each other.
void require_one_task(const Options& options) {
  std::vector<std::string> given;
  if (options.list) given.emplace_back("--list");
  if (options.commands) given.emplace_back("--commands");
  if (!options.keep.empty()) given.emplace_back("--keep-records");
  if (!options.results.empty()) given.emplace_back("--results");
  require(given.size() < 2, "{}: give one of them at a time", alternatives(given));
}

/// "3 of 7"; empty if there is nothing to count.
template <class Values, class Claim>
std::string share(const Values& values, const Claim& claim) {
  return values.empty() ? "" : fmt::format("{} of {}", std::ranges::count_if(values, claim), values.size());
}

/// The runs of the items that are missing, each once.
std::set<std::string> missing_runs(const NeededRuns& needed, const std::vector<Item>& items) {
  std::set<std::string> missing;
  for (const Item& item : items)
    for (const std::string& run : item.runs)
      if (!needed.is_finished(run)) missing.insert(run);
  return missing;
}

/// The minutes of one core that runs take.
double minutes_of(const NeededRuns& needed, const std::set<std::string>& runs) {
  double minutes = 0;
  for (const std::string& run : runs) minutes += needed.jobs().at(run).minutes;
  return minutes;
}

void print_list(const NeededRuns& needed, const std::vector<Item>& items) {
  Table table({"item", "", "runs", "commands", "minutes left"});
  for (const Item& item : items) {
    const double minutes = minutes_of(needed, missing_runs(needed, {item}));
    table.row({item.id, item.title, share(item.runs, [&](const std::string& run) { return needed.is_finished(run); }),
               share(item.steps, [&](const Step& step) { return output_of(needed, item, step).has_value(); }),
               minutes > 0 ? Cell::number(minutes, 0) : Cell()});
  }
  const std::set<std::string> missing = missing_runs(needed, items);
  fmt::print("{}{} items; {} runs are missing, which take about {:.0f} minutes of one core: items share runs.\n",
             table.text(), items.size(), missing.size(), minutes_of(needed, missing));
}

/// Prints what is missing, without running anything. With --parameters a command prints the size of its model alone.
void print_commands(const NeededRuns& needed, const std::vector<Item>& items) {
  std::set<std::string> printed;
  for (const Item& item : items) {
    fmt::print("\n# {}: {}\n", item.id, item.title);
    for (const std::string& name : item.runs) {
      if (needed.is_finished(name)) continue;
      const RunJob& job = needed.jobs().at(name);
      if (!printed.insert(name).second) {
        fmt::print("# the run {} is above\n", name);
        continue;
      }
      std::vector<std::string> words = needed.arguments(name);
      if (needed.tier() == "paper")
        std::erase_if(words, [](const std::string& word) { return word == "--threads=1" || word == "--only=1/1"; });
      words.insert(words.begin(), job.program);
      fmt::print("# {}: {}\n{}\n", job.made_for.front(), job.machine, command_line(words));
    }
    for (const Step& step : item.steps) fmt::print("{}\n", step.line);
  }
}

/// Adds metrics that the flags of a run have today to those of its test; the texts of the examples have all that a
/// metric needs.
void add_metrics(TestResult& test, const FlagValues& flags) {
  const auto given = std::ranges::find(flags, "metrics", &FlagValues::value_type::first);
  if (given == flags.end()) return;
  for (const std::string_view metric : split_columns(given->second, ','))
    if (std::ranges::count(test.metrics, metric) == 0) {
      test.metrics.emplace_back(metric);
      test.known_scores.reset();
    }
}

/// Adds the finished runs, and the outputs of commands that are kept, to the kept ones in a directory.
void keep_records(NeededRuns& needed, const std::vector<Item>& items, const fs::path& directory) {
  std::vector<RunResult> runs;
  for (const auto& [name, job] : needed.jobs()) {
    if (!needed.is_made(name)) continue;
    RunResult& run = runs.emplace_back(*needed.result(name));
    run.name = name;
    run.made_for = job.made_for;
    for (TestResult& test : run.tests) add_metrics(test, job.flags);
  }
  const auto keeps = [&](const RunResult& run, const std::string& score) {
    const std::vector<std::string> shown = needed.shown_scores(run.name);
    return std::ranges::count(shown, score) > 0;
  };
  save_kept_runs(runs, fs::absolute(needed.places().data), keeps, directory);
  const std::size_t outputs = keep_outputs(needed, items, directory);
  fmt::print("{} and {} written into {}\n", counted(runs.size(), "run"), counted(outputs, "output"),
             directory.string());
}

/// Makes what is missing and writes the report. Throws Error if an item is not done.
void reproduce(NeededRuns& needed, const std::vector<Item>& items, int jobs, const std::string& command) {
  const auto& [out, data, kept] = needed.places();
  const std::set<std::string> missing = missing_runs(needed, items);
  const bool needs_data = std::ranges::any_of(missing, [&](const std::string& run) {
    return flags_text(needed.jobs().at(run).flags).find("{data}") != std::string::npos;
  });
  require(!needs_data || fs::is_directory(data),
          "--data {}: there is no such directory; the tier '{}' trains on public data sets (experiments/data.md)",
          data.string(), needed.tier());
  fs::create_directories(out / "logs");
  const RunDirectory lock = RunDirectory::resume(out);
  if (!missing.empty())
    fmt::print(stderr, "{} runs are missing: about {:.1f} hours of one core, {:.1f} hours with {} at a time.\n",
               missing.size(), minutes_of(needed, missing) / 60, minutes_of(needed, missing) / 60 / jobs, jobs);
  write_file_atomically(out / "build.ninja", ninja_file(ninja_steps(needed, items), out));
  run_ninja(out / "build.ninja", jobs);
  std::vector<std::vector<std::string>> problems;
  for (const Item& item : items) problems.push_back(problems_of(needed, item));
  Finding report = report_on(needed, items, problems);
  report.origin = origin_of(report.runs, command, report.starts);
  for (Format format : {Format::html, Format::markdown})
    write_file_atomically(out / (format == Format::html ? "report.html" : "report.md"), contents_of(report, format));
  const Finding states{.title = "", .notes = {report.notes.front()}, .tables = {report.tables.front()}};
  fmt::print("{}report: {}\n", contents_of(states, Format::text), (out / "report.html").string());
  const auto open = std::ranges::count_if(problems, [](const auto& one) { return !one.empty(); });
  require(open == 0, "{} of {} items are not done; {} says why", open, items.size(), (out / "report.md").string());
}

}  // namespace

int main(int argc, char** argv) {
  return run("reproduce", argc, argv, [](Cli& cli) {
    Options options;
    cli.describe(
        "Reproduces the tables and figures of the papers: trains the models that are missing, tests them, and writes "
        "report.md and report.html with the papers' numbers beside ours.");
    cli.add(options);
    cli.parse();
    require_one_task(options);
    if (options.tier == "smoke" && cli.given("--data"))
      warn_without_effect({"--data"}, "the tier smoke generates its data");
    const fs::path out = options.out.empty() ? fs::path("runs") / ("reproduce-" + options.tier) : options.out;
    require(!fs::exists(out) || fs::is_directory(out), "--out {}: is a file, expected a directory", out.string());
    require(fs::is_directory(options.kept) || !cli.given("--records"), "--records {}: there is no such directory",
            options.kept.string());
    require(options.keep.empty() || fs::is_directory(out), "--out {}: there is no such directory, with runs to keep",
            out.string());
    const auto jobs = int(options.jobs > 0 ? options.jobs : std::min(omp_get_num_procs(), processors_of_quota()));
    NeededRuns needed(options.tier, {.out = out, .data = options.data, .kept = options.kept});
    const std::vector<Item> items = load_items(needed, options.items);
    if (!options.keep.empty())
      keep_records(needed, items, options.keep);
    else if (!options.results.empty())
      write_results(needed, items, options.results);
    else if (options.list)
      print_list(needed, items);
    else if (options.commands || options.tier == "paper")
      print_commands(needed, items);
    else
      reproduce(needed, items, jobs, cli.command());
  });
}
