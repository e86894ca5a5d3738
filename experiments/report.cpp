// Tables, tests, curves and pictures of finished runs, of any date.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "experiments/support/program/program.h"
#include "experiments/support/report/comparison_report.h"
#include "experiments/support/report/finding.h"
#include "experiments/support/report/sheet.h"

namespace {

using namespace fovea;

struct Options {
  std::vector<std::string> runs;
  std::string sheet;
  OutputFlags output;

  void add_to(Cli& cli) {
    cli.option("runs", runs,
               "directories of runs, of comparisons, or of several of them; the others are tested against the first "
               "row, and a run that is named twice is read once");
    cli.option("--sheet", sheet, "lay the runs out as this table of a paper, beside the paper's numbers");
    cli.add(output);
  }
};

Finding sheet_finding(const std::string& name, const std::vector<RunResult>& runs) {
  const Sheet sheet = load_sheet(name);
  const SheetRuns of_rows = runs_of(sheet, runs);
  Finding finding{.title = sheet.title, .tables = tables_of(sheet, of_rows)};
  std::set<const RunResult*> found;
  for (const auto& [row, of_row] : of_rows) found.insert(of_row.begin(), of_row.end());
  for (const RunResult* run : found) finding.add_origin(*run);
  const std::size_t others = runs.size() - found.size();
  if (others > 0)
    finding.tables[0].caption += fmt::format(
        " {} of {} runs are left out: they were not made for a row (--made-for), or differ from a row's first run in "
        "more than the seed.",
        others, runs.size());
  return finding;
}

/// The comparable groups that have a finished run. Names every failed run on standard error; throws Error if no other
/// is left.
std::vector<RunGroup> finished_groups(const std::vector<RunResult>& runs) {
  std::vector<std::string> failed;
  for (const RunResult& run : runs)
    if (!run.failure.empty()) failed.push_back(run.directory.string() + ": " + run.failure);
  std::vector<RunGroup> groups = comparable_groups(runs);
  std::erase_if(groups, [](const RunGroup& group) { return all_failed(group.rows); });
  require(!groups.empty(), "{}", failed.empty() ? "no run" : fmt::format("{}", fmt::join(failed, "; ")));
  for (const std::string& line : failed) fmt::print(stderr, "{}\n", line);
  if (groups.size() > 1)
    fmt::print(stderr, "The runs form {} groups (other program or other test set); each gets its own table.\n",
               groups.size());
  return groups;
}

/// The page about the runs.
Finding runs_finding(const std::vector<RunResult>& runs) {
  ComparisonReport all{.title = "Runs", .groups = finished_groups(runs)};
  if (all.groups.size() == 1) all.title = all.groups.front().title;
  Finding finding = finding_of(all);
  for (const RunGroup& group : all.groups)
    for (const ComparedRow& row : group.rows)
      for (const RunResult& run : row.runs) finding.add_origin(run);
  return finding;
}

void report(const Cli& cli, const Options& options) {
  require(!options.runs.empty(), "RUNS, the directories of finished runs, are missing");
  const auto [runs, damaged] = load_runs({options.runs.begin(), options.runs.end()});
  require(!runs.empty() || damaged.empty(), "{}", fmt::join(damaged, "; "));
  for (const std::string& what : damaged) fmt::print(stderr, "{}; the run is left out\n", what);
  options.output.write(cli, options.sheet.empty() ? runs_finding(runs) : sheet_finding(options.sheet, runs));
  // A script that only looks at the exit status must not take a table without them for the whole.
  require(damaged.empty(), "{}; to have it, delete its result.json and --resume it; the others are complete",
          damaged.size() == 1 ? "1 run is damaged, named above"
                              : fmt::format("{} runs are damaged, named above", damaged.size()));
}

}  // namespace

int main(int argc, char** argv) {
  return run("report", argc, argv, [](Cli& cli) {
    Options options;
    cli.describe(
        "Prints finished runs, of any date, as one table with tests between them; or as a page with curves and "
        "pictures; or laid out like a table of a paper.");
    cli.add(options);
    cli.parse();
    report(cli, options);
  });
}
