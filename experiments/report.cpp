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
    cli.option("--baseline", baseline, "title of the row that the others are tested against; default: the first");
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

/// The tables of all groups, each with a heading if there are several.
std::string text_report(const ComparisonReport& report, Format format) {
  std::string text;
  for (const RunGroup& group : report.groups) {
    const std::size_t baseline = baseline_of(group, report.baseline);
    if (report.groups.size() > 1 && (format == Format::terminal || format == Format::markdown))
      text += fmt::format("{}{}{}\n\n", text.empty() ? "" : "\n", format == Format::markdown ? "## " : "", group.title);
    std::vector<const RunResult*> runs;
    for (const ComparedRow& row : group.rows)
      for (const RunResult& run : row.runs) runs.push_back(&run);
    const std::string caption = trimmed_end(comparison_caption(group.rows, baseline));
    text += in_format(comparison_table(group.rows, baseline), caption + " " + origin_text(runs), format);
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

/// index.html: a line for every row of runs in the directory, the newest first.
void write_index(const fs::path& directory) {
  Report page("Runs", fs::weakly_canonical(directory).string());
  std::vector<std::pair<std::string, std::vector<Cell>>> lines;
  std::vector<std::string> links;
  for (const RunResult& run : load_runs({directory})) {
    const Json starts = starts_of(run);
    const std::string date = starts.empty() ? "" : starts.back().value("started", "");
    const TextScore* score = run.tests.empty() ? nullptr : &run.tests.front().scores().front();
    const fs::path place = fs::relative(run.directory, directory);
    fs::path report = place / "report.html";
    if (!fs::exists(directory / report)) report = place.parent_path() / "report.html";
    Cell link(place.string());
    if (fs::exists(directory / report)) link.link(report.string());
    lines.push_back({date,
                     {date, link, run.configuration.value("program", ""), run.row, static_cast<std::int64_t>(run.seed),
                      run.configuration.value("data", ""), score ? score->name : (run.failure.empty() ? "" : "failed"),
                      score ? Cell::number(score->metric.value(), score->decimals) : Cell()}});
  }
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Table table({"started", "directory", "program", "row", "seed", "data", "score of the test", ""});
  for (auto& [date, cells] : lines) table.row(std::move(cells));
  page.section("All runs").add(table, "The newest first. A link leads to the report of the run or of its comparison.");
  page.write(directory / "index.html");
  fmt::print("{}\n", (directory / "index.html").string());
}

void report(const Options& options) {
  require(!options.runs.empty(), "RUNS, the directories of finished runs, are missing");
  const std::vector<fs::path> directories(options.runs.begin(), options.runs.end());
  if (options.index) {
    for (const fs::path& directory : directories) write_index(directory);
    return;
  }
  const std::vector<RunResult> runs = load_runs(directories);
  ComparisonReport all{
      .title = "Runs", .subtitle = "", .groups = comparable_groups(runs), .baseline = options.baseline};
  std::vector<std::string> titles;
  for (const RunGroup& group : all.groups)
    for (const ComparedRow& row : group.rows) titles.push_back(row.title);
  require(options.baseline.empty() || std::count(titles.begin(), titles.end(), options.baseline) > 0,
          "--baseline: there is no row '{}'{}; the rows are {}", options.baseline,
          did_you_mean(options.baseline, titles), listed(titles, ", "));
  if (all.groups.size() == 1) all.title = all.groups.front().title;
  for (const RunGroup& group : all.groups)
    require(group.has_finished(), "{}: {}", group.rows.front().runs.front().directory.string(),
            group.rows.front().runs.front().failure);
  if (all.groups.size() > 1)
    fmt::print(stderr, "{} groups of runs, by program and test examples; scores are compared within a group only\n",
               all.groups.size());
  std::string text = !options.sheet.empty()           ? sheet_report(options, runs)
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
