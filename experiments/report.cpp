// Tables, tests, curves and pictures of finished runs, of any date.
#include <algorithm>
#include <set>

#include "experiments/support/program/program.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/report/comparison_report.h"
#include "experiments/support/report/finding.h"
#include "experiments/support/report/sheet.h"
#include "experiments/support/report/svg.h"
#include "experiments/support/text/words.h"
#include "tensor/support/atomic_file.h"
#include "tensor/support/suggestion.h"

namespace {

using namespace fovea;
namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> runs;
  std::string baseline, sheet;
  fs::path figures;
  bool list_sheets = false, index = false;
  OutputFlags output;

  void add_to(Cli& cli) {
    cli.option("runs", runs, "directories of runs, of comparisons, or of several of them");
    cli.option("--baseline", baseline,
               "title of the row that the others are tested against, without --sheet; default: the first");
    cli.option("--sheet", sheet, "lay the runs out as this table of a paper, beside the paper's numbers");
    cli.option("--list-sheets", list_sheets, "print the names of all sheets, and exit");
    cli.option("--figures", figures, "write every chart and picture as an SVG file into this directory");
    cli.option("--index", index, "write index.html, a page with a line for every run in the directory, into it");
    cli.add(output);
  }
};

void print_sheets() {
  Table table({"sheet", "item", "table"});
  for (const std::string& name : sheet_names()) {
    const Sheet sheet = load_sheet(name);
    table.row({name, sheet.item, sheet.title});
  }
  fmt::print("{}", table.text());
}

/// A finding that names the run among those that were read.
void add_origin(Finding& finding, const RunResult& run) {
  if (run.starts.empty()) finding.runs.push_back(run.directory);
  finding.starts.insert(finding.starts.end(), run.starts.begin(), run.starts.end());
}

/// The tables of all groups.
Finding comparison_finding(const ComparisonReport& report) {
  Finding finding;
  for (const RunGroup& group : report.groups) {
    const std::size_t baseline = baseline_of(group, report.baseline);
    for (const ComparedRow& row : group.rows)
      for (const RunResult& run : row.runs) add_origin(finding, run);
    finding.tables.push_back({.name = group.title,
                              .table = comparison_table(group.rows, baseline),
                              .caption = comparison_caption(group.rows, baseline)});
  }
  finding.page = [report](const std::string& origin) {
    ComparisonReport page = report;
    page.subtitle = origin;
    return page_of(page).html();
  };
  return finding;
}

/// The tables of a sheet, one after the other of runs with given and with searched learning rates.
Finding sheet_finding(const std::string& name, const std::vector<RunResult>& runs) {
  const Sheet sheet = load_sheet(name);
  Finding finding{.title = sheet.title};
  std::set<const RunResult*> found;
  for (const Rates rates : {Rates::given, Rates::searched}) {
    const SheetRuns of_rates = runs_of(sheet, runs, rates);
    if (rates == Rates::searched && of_rates.empty()) continue;
    for (const auto& [row, of_row] : of_rates) found.insert(of_row.begin(), of_row.end());
    for (Finding::NamedTable& table : tables_of(sheet, of_rates)) {
      if (rates == Rates::searched) table.name += ", with searched learning rates";
      finding.tables.push_back(std::move(table));
    }
  }
  for (const RunResult* run : found) add_origin(finding, *run);
  const std::size_t others = runs.size() - found.size();
  if (others > 0)
    finding.tables[0].caption += fmt::format(
        " {} of {} runs are left out: they were not made for a row (--made-for), or differ from a row's first run in "
        "more than the seed.",
        others, runs.size());
  return finding;
}

/// Writes every chart and picture of the page, in order: 01-development-set.svg, ...
void write_figures(const Report& page, const fs::path& directory) {
  fs::create_directories(directory);
  int number = 0;
  for (const Figure& figure : page.figures()) {
    const fs::path path = directory / fmt::format("{:02}-{}.svg", ++number, file_name_for(figure.title));
    write_svg(path, figure.svg);
  }
  fmt::print(stderr, "{} in {}\n", counted(static_cast<std::size_t>(number), "figure"), directory.string());
}

/// Ends the program with an error if runs were damaged, after the others have been shown: a script that only looks at
/// the exit status must not take a table without them for the whole.
void require_undamaged(std::size_t damaged) {
  require(damaged == 0, "{}; the others are complete",
          damaged == 1 ? "1 run is damaged, named above" : fmt::format("{} runs are damaged, named above", damaged));
}

/// index.html: a line for every run in the directory, the newest first. Returns the number of damaged runs.
std::size_t write_index(const fs::path& directory, const std::string& origin) {
  std::vector<std::pair<std::string, std::vector<Cell>>> lines;  // by the time of the start
  const auto add = [&](const RunResult& run, const std::string& state) {
    const std::vector<Json> starts = starts_of(run);
    const std::string started = starts.empty() ? "" : text_at(starts.back(), "started");
    const fs::path place = fs::relative(run.directory, directory);
    Cell link(place.string());
    for (const fs::path& report : {place.parent_path() / "report.html", place / "report.html"})
      if (fs::exists(directory / report)) link.link(link_to(report));
    lines.push_back(
        {started,
         {started, link, text_at(run.configuration, "program"), run.row,
          run.configuration.is_null() ? Cell() : Cell(run.seed), text_at(run.configuration, "data"), state}});
  };
  const LoadedRuns loaded = load_runs({directory});
  for (const RunResult& run : loaded.runs) {
    const TextScore* score = run.tests.empty() ? nullptr : &run.tests.front().scores().front();
    add(run, score ? fmt::format("{} {:.{}f}", score->name, score->metric.value(), score->decimals) : "failed");
  }
  for (const DamagedRun& run : loaded.damaged) {
    fmt::print(stderr, "{}\n", run.reason);
    add({.directory = run.directory}, "damaged");  // only its place is known
  }
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Table table({"started", "directory", "program", "row", "seed", "data", "test"});
  for (auto& [started, cells] : lines) table.row(std::move(cells));
  const Finding index{.title = "Runs in " + fs::weakly_canonical(directory).string(),
                      .notes = {"The newest first. A link leads to the report of the run or of its comparison."},
                      .tables = {{"", table}},
                      .origin = origin};
  write_file_atomically(directory / "index.html", contents_of(index, Format::html));
  fmt::print("{}\n", (directory / "index.html").string());
  return loaded.damaged.size();
}

/// How to have a damaged run again. A test of a model has nothing to continue with.
std::string remedy_for(const fs::path& run) {
  return fs::exists(run / "config.json") ? "delete its result.json and continue it with --resume to have it"
                                         : "make it again";
}

/// The comparable groups that have a finished run. Names every damaged or failed run on standard error; throws Error if
/// no other is left.
std::vector<RunGroup> finished_groups(const LoadedRuns& loaded) {
  std::vector<std::string> lost;
  for (const DamagedRun& run : loaded.damaged)
    lost.push_back(run.reason + "; the run is left out; " + remedy_for(run.directory));
  for (const RunResult& run : loaded.runs)
    if (!run.failure.empty()) lost.push_back(run.directory.string() + ": " + run.failure);
  std::vector<RunGroup> groups = comparable_groups(loaded.runs);
  std::erase_if(groups, [](const RunGroup& group) { return !group.has_finished(); });
  require(!groups.empty(), "{}{}", lost.empty() ? "no run" : lost.front(),
          lost.size() > 1 ? fmt::format("; {} more runs are damaged or failed", lost.size() - 1) : "");
  for (const std::string& line : lost) fmt::print(stderr, "{}\n", line);
  if (groups.size() > 1)
    fmt::print(stderr, "The runs form {} groups (other program or other test set); each gets its own table.\n",
               groups.size());
  return groups;
}

void require_baseline(const std::vector<RunGroup>& groups, const std::string& baseline) {
  std::vector<std::string> titles;
  for (const RunGroup& group : groups)
    for (const ComparedRow& row : group.rows) titles.push_back(row.full_title());
  require(baseline.empty() || std::count(titles.begin(), titles.end(), baseline) > 0,
          "--baseline: there is no row '{}'{}; the rows are {}", baseline, did_you_mean(baseline, titles),
          listed(titles, ", "));
}

void report(const Cli& cli, const Options& options) {
  require(!options.runs.empty(), "RUNS, the directories of finished runs, are missing");
  require(options.baseline.empty() || options.sheet.empty(),
          "--baseline: not with --sheet; a sheet's rows are tested against its first row");
  const std::vector<fs::path> directories(options.runs.begin(), options.runs.end());
  if (options.index) {
    require(options.output.out.empty(),
            "--index: not with --out; index.html is written into the directory of the runs");
    std::size_t damaged = 0;
    for (const fs::path& directory : directories) damaged += write_index(directory, origin_of({}, cli.command()));
    return require_undamaged(damaged);
  }
  const LoadedRuns loaded = load_runs(directories);
  ComparisonReport all{
      .title = "Runs", .subtitle = "", .groups = finished_groups(loaded), .baseline = options.baseline};
  if (all.groups.size() == 1) all.title = all.groups.front().title;
  require_baseline(all.groups, options.baseline);
  if (!options.figures.empty()) write_figures(page_of(all), options.figures);
  options.output.write(cli,
                       options.sheet.empty() ? comparison_finding(all) : sheet_finding(options.sheet, loaded.runs));
  require_undamaged(loaded.damaged.size());
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
    options.list_sheets ? print_sheets() : report(cli, options);
  });
}
