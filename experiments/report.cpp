// Tables, tests, curves and pictures of finished runs, of any date.
#include <cstdio>
#include <fstream>
#include <iostream>

#include "experiments/support/program/program.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/report/comparison_report.h"
#include "experiments/support/report/svg.h"
#include "experiments/support/text/words.h"
#include "tensor/support/atomic_file.h"
#include "tensor/support/suggestion.h"

namespace {

using namespace fovea;
namespace fs = std::filesystem;

enum class Format { terminal, markdown, csv, latex, json, html };

struct Options {
  std::vector<std::string> runs;
  Format format = Format::terminal;
  std::string baseline, sheet;
  fs::path out, figures;
  bool list_sheets = false, index = false;

  void add_to(Cli& cli) {
    cli.option("runs", runs, "directories of runs, of comparisons, or of several of them");
    cli.choice("--format", format,
               {{"terminal", Format::terminal},
                {"markdown", Format::markdown},
                {"csv", Format::csv},
                {"latex", Format::latex},
                {"json", Format::json},
                {"html", Format::html}},
               "form of the report; latex needs the package booktabs, html is one page with curves and pictures");
    cli.option("--baseline", baseline,
               "title of the row that the others are tested against, without --sheet; default: the first");
    cli.option("--sheet", sheet, "lay the runs out as this table of a paper, beside the paper's numbers");
    cli.option("--list-sheets", list_sheets, "print the names of all sheets, and exit");
    cli.option("--out", out, "write the report to this file; default: standard output");
    cli.option("--figures", figures, "write every chart and picture as an SVG file into this directory");
    cli.option("--index", index, "write index.html, a page with a line for every run in the directory, into it");
  }
};

void print_sheets() {
  Table table({"sheet", "item", "table"});
  for (const std::string& name : sheet_names()) {
    const Sheet sheet = load_sheet(name);
    table.row({name, sheet.box, sheet.title});
  }
  fmt::print("{}", table.text());
}

/// The lines as comments of LaTeX.
std::string commented(const std::string& text) {
  std::string lines;
  for (std::string_view line : split_columns(text, '\n')) lines += fmt::format("% {}\n", line);
  return lines;
}

std::string heading(const std::string& title, Format format) {
  if (format == Format::latex) return commented(title);
  return (format == Format::markdown ? "## " : "") + title + "\n\n";
}

std::string in_format(const Table& table, const std::string& caption, Format format) {
  switch (format) {
    case Format::markdown:
      return table.markdown() + "\n" + caption + "\n";
    case Format::csv:
      return table.csv();
    case Format::latex:
      return table.latex() + commented(caption);
    case Format::json:
      return text_of(table.json(), 2) + "\n";
    default:
      return table.text() + caption + "\n";
  }
}

std::string trimmed_end(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string caption_of(const RunGroup& group, std::size_t baseline) {
  std::vector<const RunResult*> runs;
  for (const ComparedRow& row : group.rows)
    for (const RunResult& run : row.runs) runs.push_back(&run);
  const std::string caption = trimmed_end(comparison_caption(group.rows, baseline));
  return caption + (caption.find('\n') == std::string::npos ? " " : "\n") + origin_text(runs);  // failures have lines
}

/// The tables of all groups. If there are several, each has its group's title: as a heading (in LaTeX a comment), as
/// the column or key "group".
std::string text_report(const ComparisonReport& report, Format format) {
  std::vector<std::pair<std::string, Table>> tables;
  for (const RunGroup& group : report.groups)
    tables.emplace_back(group.title, comparison_table(group.rows, baseline_of(group, report.baseline)));
  const bool are_several = tables.size() > 1;
  if (are_several && format == Format::csv) return Table::csv("group", tables);
  if (are_several && format == Format::json) {
    Json all = Json::array();
    for (const auto& [title, table] : tables) all.push_back({{"group", title}, {"rows", table.json()}});
    return text_of(all, 2) + "\n";
  }
  std::string text;
  for (std::size_t k = 0; k < tables.size(); ++k) {
    const auto& [title, table] = tables[k];
    if (are_several) text += (text.empty() ? "" : "\n") + heading(title, format);
    text += in_format(table, caption_of(report.groups[k], baseline_of(report.groups[k], report.baseline)), format);
  }
  return text;
}

std::string sheet_report(const Options& options, const std::vector<RunResult>& runs) {
  const Sheet sheet = load_sheet(options.sheet);
  std::vector<const RunResult*> all;
  for (const RunResult& run : runs) all.push_back(&run);
  const SheetRuns found = match_runs(sheet, all);
  std::size_t matched = 0;
  for (const auto& [row, of_row] : found) matched += of_row.size();
  std::string caption = sheet_caption(sheet, found) + " " + origin_text(all);
  if (matched < runs.size())
    caption += fmt::format(
        " {} of {} runs are left out: they belong to no row, or differ from a row's first run in more "
        "than the seed.",
        runs.size() - matched, runs.size());
  std::string claims;
  for (const CheckedClaim& one : check_claims(sheet, found))
    if (one.holds) claims += fmt::format("\n{}: {} ({})", one.claim.text, *one.holds ? "yes" : "no", one.numbers);
  if (options.format != Format::html)
    return in_format(sheet_table(sheet, found), caption + (options.format == Format::terminal ? claims : ""),
                     options.format);
  Report page(sheet.title);
  page.section("Table").add(sheet_table(sheet, found), caption);
  if (!claims.empty()) page.section("What the table must show").code(claims.substr(1));
  return page.html();
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

struct IndexLine {
  std::string started;
  std::vector<Cell> cells;
};

/// A line of index.html. Of a damaged run only the directory is known.
IndexLine index_line(const fs::path& root, const RunResult& run, const std::string& score, const Cell& value = {}) {
  const std::vector<Json> starts = starts_of(run.directory);
  const std::string started = starts.empty() ? "" : text_at(starts.back(), "started");
  const fs::path place = fs::relative(run.directory, root);
  fs::path report = place / "report.html";
  if (!fs::exists(root / report)) report = place.parent_path() / "report.html";
  Cell directory(place.string());
  if (fs::exists(root / report)) directory.link(link_to(report));
  const Cell seed = run.configuration.is_null() ? Cell() : Cell(run.seed);
  return {started,
          {started, directory, text_at(run.configuration, "program"), run.row, seed, text_at(run.configuration, "data"),
           score, value}};
}

/// index.html: a line for every run in the directory, the newest first.
void write_index(const fs::path& directory) {
  const LoadedRuns loaded = load_runs({directory});
  std::vector<IndexLine> lines;
  for (const RunResult& run : loaded.runs) {
    const TextScore* score = run.tests.empty() ? nullptr : &run.tests.front().scores().front();
    lines.push_back(score
                        ? index_line(directory, run, score->name, Cell::number(score->metric.value(), score->decimals))
                        : index_line(directory, run, run.failure.empty() ? "" : "failed"));
  }
  for (const DamagedRun& run : loaded.damaged) {
    fmt::print(stderr, "{}\n", run.reason);
    lines.push_back(index_line(directory, {.directory = run.directory}, "damaged"));
  }
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.started > b.started; });
  Table table({"started", "directory", "program", "row", "seed", "data", "score of the test", ""});
  for (IndexLine& line : lines) table.row(std::move(line.cells));
  Report page("Runs", fs::weakly_canonical(directory).string());
  page.section("All runs").add(table, "The newest first. A link leads to the report of the run or of its comparison.");
  page.write(directory / "index.html");
  fmt::print("{}\n", (directory / "index.html").string());
}

/// The comparable groups that have a finished run. Names every damaged or failed run on standard error; throws Error if
/// no other is left.
std::vector<RunGroup> finished_groups(const LoadedRuns& loaded) {
  std::vector<std::string> lost;
  for (const DamagedRun& run : loaded.damaged) lost.push_back(run.reason);
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

void report(const Options& options) {
  require(!options.runs.empty(), "RUNS, the directories of finished runs, are missing");
  require(options.baseline.empty() || options.sheet.empty(),
          "--baseline: not with --sheet; a sheet's rows are tested against its first row");
  const std::vector<fs::path> directories(options.runs.begin(), options.runs.end());
  if (options.index) {
    for (const fs::path& directory : directories) write_index(directory);
    return;
  }
  const LoadedRuns loaded = load_runs(directories);
  ComparisonReport all{
      .title = "Runs", .subtitle = "", .groups = finished_groups(loaded), .baseline = options.baseline};
  if (all.groups.size() == 1) all.title = all.groups.front().title;
  require_baseline(all.groups, options.baseline);
  const std::string text = !options.sheet.empty()           ? sheet_report(options, loaded.runs)
                           : options.format == Format::html ? page_of(all).html()
                                                            : text_report(all, options.format);
  if (!options.figures.empty()) write_figures(page_of(all), options.figures);
  if (options.out.empty())
    fmt::print("{}", text);
  else
    write_file_atomically(options.out, text);
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
    options.list_sheets ? print_sheets() : report(options);
  });
}
