// Every table and figure of the five papers: trains what is missing, and writes one report.

#include <algorithm>
#include <set>

#include <unistd.h>

#include "experiments/support/program/program.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/report/program_options.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/reproduce/planned_items.h"
#include "experiments/support/reproduce/results.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/reduced_record.h"
#include "tensor/support/atomic_file.h"

namespace {

using namespace fovea;
namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> items;
  std::string tier = "smoke";
  std::int64_t jobs = 0;
  bool list = false, search = false;
  fs::path out, data = "data", records = records_directory(), keep_records, results;

  void add_to(Cli& cli) {
    cli.option("items", items, "items to reproduce, such as N-T1, or Y for all that begin with Y; default: all");
    cli.option("--tier", tier,
               "smoke: minutes on 2 cores; mini: hours; paper: prints the commands, sizes and machines of the papers' "
               "own settings")
        .one_of({"smoke", "mini", "paper"});
    cli.option("--jobs", jobs, "programs that run at a time, each on one thread; 0: one per core").range(0, 1024);
    cli.option("--search", search,
               "also search for the learning rate of every row: three rates for a third of the updates, chosen on the "
               "development set; then train the rows again with the chosen rates");
    cli.option("--list", list, "print the items with their state and the time that they still take, and exit");
    cli.option("--out", out, "directory of runs and report; default: runs/reproduce-TIER");
    cli.option("--records", records, "directory of reduced records of finished runs, which are not made again");
    cli.option("--keep-records", keep_records,
               "write reduced records of all finished runs, and outputs of commands, into this directory, both without "
               "texts of the data");
    cli.option("--results", results,
               "write a Markdown page into this file: the tables of the finished runs, and for each paper which of its "
               "statements hold and which do not, and where the runs cannot tell. Nothing is trained");
    cli.option("--data", data,
               "directory of the public data sets that the tier mini reads: multi30k, small_parallel_enja, sst, imdb, "
               "sva_linzen, lm1b_sample, aeslc (experiments/data.md)");
  }
};

/// Throws Error for flags that exclude each other.
void require_one_task(const Options& options) {
  std::vector<std::string> given;
  if (options.list) given.emplace_back("--list");
  if (!options.keep_records.empty()) given.emplace_back("--keep-records");
  if (!options.results.empty()) given.emplace_back("--results");
  require(given.size() < 2, "{}: give one of them at a time", listed(given));
  require(!options.search || options.tier == "mini",
          "--search: only with --tier mini, whose recipes have rates to try");
}

/// "3 of 7"; empty if there is nothing to count.
template <class Values, class Claim>
std::string share(const Values& values, const Claim& claim) {
  return values.empty() ? ""
                        : fmt::format("{} of {}", std::count_if(values.begin(), values.end(), claim), values.size());
}

/// The number of the missing runs, and the minutes of one core that they take.
std::pair<std::int64_t, double> budget_of(const NeededRuns& needed) {
  std::pair<std::int64_t, double> budget;
  for (const auto& [name, job] : needed.jobs())
    if (!needed.is_finished(name)) ++budget.first, budget.second += job.minutes;
  return budget;
}

/// " Then at most 12 runs with the chosen rates, 96 minutes." Empty if all of them are known.
std::string after_search(const NeededRuns& needed) {
  const auto [runs, minutes] = needed.most_after_search();
  return runs == 0 ? "" : fmt::format(" Then at most {} runs with the chosen rates, {:.0f} minutes.", runs, minutes);
}

void print_list(const NeededRuns& needed, const std::vector<PlannedItem>& items) {
  Table table({"item", "", "runs", "commands", "minutes left"});
  for (const PlannedItem& item : items) {
    double minutes = 0;
    for (const std::string& run : item.runs)
      if (!needed.is_finished(run)) minutes += needed.jobs().at(run).minutes;
    table.row({item.id, item.title, share(item.runs, [&](const std::string& run) { return needed.is_finished(run); }),
               share(item.steps, [&](const Step& step) { return output_of(needed, item, step).has_value(); }),
               minutes > 0 ? Cell::number(minutes, 0) : Cell()});
  }
  const auto [missing, minutes] = budget_of(needed);
  fmt::print("{}{} items; {} runs are missing, which take about {:.0f} minutes of one core: items share runs.{}\n",
             table.text(), items.size(), missing, minutes, after_search(needed));
}

/// The number of parameters of the model that a job trains.
std::string parameters_of(const RunJob& job) {
  const bool is_sequence = job.program == "translate" || job.program == "summarize" || job.program == "language_model";
  if (!is_sequence || job.kind != RunJob::Kind::training) return "as in the training";
  SequenceOptions options = sequence_defaults(job.program);
  std::vector<std::string> arguments = arguments_of(job.flags);
  const bool has_vocabulary =
      std::any_of(job.flags.begin(), job.flags.end(), [](const auto& flag) { return flag.first == "vocabulary-size"; });
  if (!has_vocabulary) arguments.emplace_back("--vocabulary-size=30522");  // BERT's word pieces
  parse(options, job.program, arguments);
  return std::to_string(options.model_of_sizes()->parameter_count());
}

/// Prints what the papers' own settings would take, without running anything.
void print_commands(const NeededRuns& needed, const std::vector<PlannedItem>& items) {
  std::set<std::string> printed;
  for (const PlannedItem& item : items) {
    fmt::print("\n# {}: {}\n", item.id, item.title);
    for (const std::string& name : item.runs) {
      const RunJob& job = needed.jobs().at(name);
      if (!printed.insert(name).second) {
        fmt::print("# the run {} is above\n", name);
        continue;
      }
      std::vector<std::string> words = needed.arguments(name);
      std::erase(words, "--threads=1");
      words.insert(words.begin(), job.program);
      fmt::print("# {}: parameters: {}; {}\n{}\n", job.label, parameters_of(job), job.machine, command_line(words));
    }
    for (const Step& step : item.steps) fmt::print("{}\n", command_line(step.call.words));
  }
}

/// Writes reduced records of the finished runs that have none yet, and the outputs of commands that are kept.
void keep_records(const NeededRuns& needed, const std::vector<PlannedItem>& items, const fs::path& directory) {
  std::size_t kept = 0;
  for (const auto& [name, job] : needed.jobs()) {
    if (fs::exists(directory / name / "result.json")) continue;
    if (std::optional<RunResult> run = load_result(needed.directory(name))) {
      if (job.is_trial) run->tests.clear();  // trials are judged by their development set
      save_reduced(*run, fs::absolute(needed.places().data), directory / name), ++kept;
    }
  }
  const std::size_t outputs = keep_outputs(needed, items, directory);
  fmt::print("{} and {} written into {}\n", counted(kept, "record"), counted(outputs, "output"), directory.string());
}

void print_budget(const NeededRuns& needed, int jobs) {
  const auto [missing, minutes] = budget_of(needed);
  if (missing > 0)
    fmt::print(stderr, "{} runs are missing: about {:.1f} hours of one core, {:.1f} hours with {} at a time.{}\n",
               missing, minutes / 60, minutes / 60 / jobs, jobs, after_search(needed));
}

/// Makes what is missing and writes the report. Throws Error if an item is not done.
void reproduce(NeededRuns& needed, const Options& options, int jobs, const std::string& command) {
  std::vector<PlannedItem> items = planned_items(needed, options.items, options.search);
  const auto& [out, data, records] = needed.places();
  require(!needed.needs_data() || fs::is_directory(data),
          "--data {}: there is no such directory; the tier '{}' trains on public data sets (experiments/data.md)",
          data.string(), needed.tier());
  fs::create_directories(out);
  const RunDirectory lock = RunDirectory::resume(out);
  print_budget(needed, jobs);
  make_runs(needed, jobs);
  if (options.search) {  // the chosen rates are known now
    items = planned_items(needed, options.items, true);
    print_budget(needed, jobs);
    make_runs(needed, jobs);
  }
  run_steps(needed, items, jobs);
  std::vector<std::vector<std::string>> problems;
  for (const PlannedItem& item : items) problems.push_back(problems_of(needed, item));
  Finding report = report_on(needed, items, problems);
  report.origin = origin_of(report.runs, command);
  for (Format format : {Format::html, Format::markdown})
    write_file_atomically(out / (format == Format::html ? "report.html" : "report.md"), contents_of(report, format));
  report.sections.clear();
  fmt::print("{}report: {}\n", contents_of(report, Format::text), (out / "report.html").string());
  const auto open = std::count_if(problems.begin(), problems.end(), [](const auto& one) { return !one.empty(); });
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
    const fs::path out = options.out.empty() ? fs::path("runs") / ("reproduce-" + options.tier) : options.out;
    const auto jobs = static_cast<int>(options.jobs > 0 ? options.jobs : ::sysconf(_SC_NPROCESSORS_ONLN));
    NeededRuns needed(options.tier, {.out = out, .data = options.data, .records = options.records});
    const bool searches = options.search || !options.keep_records.empty();
    const std::vector<PlannedItem> items = planned_items(needed, options.items, searches);
    if (!options.keep_records.empty())
      keep_records(needed, items, options.keep_records);
    else if (!options.results.empty())
      write_results(needed, items, options.results);
    else if (options.list)
      print_list(needed, items);
    else if (options.tier == "paper")
      print_commands(needed, items);
    else
      reproduce(needed, options, jobs, cli.command());
  });
}
