#include "experiments/support/reproduce/pages.h"

#include <algorithm>
#include <fstream>
#include <set>

#include <fmt/core.h>

#include "experiments/support/program/files.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

constexpr const char* page_title = "The papers' statements, measured";

/// The sheets of the items, in their order, each once.
std::vector<const Sheet*> sheets_of(const NeededRuns& needed, const std::vector<Item>& items) {
  std::vector<const Sheet*> sheets;
  for (const Item& item : items)
    for (const std::string& name : item.sheets)
      if (std::ranges::count(sheets, &needed.sheet(name)) == 0) sheets.push_back(&needed.sheet(name));
  return sheets;
}

/// "Nguyen et al. 2020, table 1", of a sheet with the title "Nguyen et al. 2020, table 1: translation".
std::string table_of(const Sheet& sheet) { return sheet.title.substr(0, sheet.title.find(':')); }

/// The text of NAME.md beside the sheets, which is about the tier mini; empty for other tiers and without a file.
std::string own_words(const NeededRuns& needed, const std::string& name) {
  const fs::path file = fs::path(sheets_directory()) / (name + ".md");
  if (needed.tier() != "mini" || !fs::exists(file)) return "";
  std::string text = contents_of_file(file);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

/// Appends the differences of methods from the first one, and what each task is.
void add_differences(Finding& page, const Sheet& sheet, const SheetRuns& runs) {
  if (runs.size() < 2) return;
  page.tables.push_back({sheet.title, difference_table(sheet, runs), sheet.about});
  Table tasks({"task", "what it is"});
  for (const Sheet::Task& task : sheet.tasks)
    if (std::ranges::any_of(runs, [&](const auto& row) { return row.first.second == task.name; }))
      tasks.row({task.name, task.data});
  page.tables.push_back({"", tasks});
}

/// The claims of a sheet; those that are not required are not judged if the first row is not trained enough.
std::vector<CheckedClaim> judged_claims(const Sheet& sheet, const SheetRuns& runs, const std::string& tier) {
  std::vector<CheckedClaim> claims = check_claims(sheet, runs);
  if (untrained(sheet, runs, tier).empty()) return claims;
  for (CheckedClaim& one : claims)
    if (!one.claim.is_required && one.verdict != Verdict::not_measured) {
      one.verdict = Verdict::open;
      one.why_open = "the first row is not trained enough";
    }
  return claims;
}

/// A row for each measured statement of the papers. Of several about the same runs the first stands for all, and those
/// that must hold at any size, which check our programs, have a row only where they do not.
Finding::NamedTable statement_table(NeededRuns& needed, const std::vector<const Sheet*>& sheets) {
  Table table({"statement", "of", "difference, paper", "ours (95 % interval)", "verdict"});
  std::vector<CheckedClaim> known;
  int missing = 0;
  for (const Sheet* sheet : sheets)
    for (CheckedClaim& one : judged_claims(*sheet, needed.finished(*sheet), needed.tier())) {
      missing += one.verdict == Verdict::not_measured;
      if (one.verdict == Verdict::not_measured || (one.claim.is_required && one.verdict == Verdict::holds)) continue;
      if (std::ranges::any_of(known, [&](auto& before) { return before.is_same_comparison(one); })) continue;
      std::vector<Cell> cells = one.cells();
      cells.insert(cells.begin() + 1, one.claim.of.empty() ? table_of(*sheet) : one.claim.of);
      table.row(std::move(cells));
      known.push_back(std::move(one));
    }
  std::string legend =
      "Open, “1.3 would show”: a true difference of 1.3 would be found in four of five such experiments. “The paper's "
      "is "
      "outside”: the difference in the paper lies outside of our interval.";
  if (missing > 0) legend += " " + counted(std::size_t(missing), "statement") + " more: not measured.";
  return {"", table, legend};
}

/// Dates, versions and processors of the runs, without the names of machines and directories.
std::string making_of(const NeededRuns& needed) {
  const std::vector<const RunResult*> runs = needed.read_runs();
  std::vector<Json> starts;
  for (const RunResult* run : runs)
    for (const Json& start : starts_of(*run)) starts.push_back(start_without_places(start));
  return fmt::format(
      "`reproduce --tier {} --results FILE` writes this page from the records of {} and the paragraphs in sheets/.{}",
      needed.tier(), counted(runs.size(), "run"), starts.empty() ? "" : " Runs made " + summary_of(starts) + ".");
}

Finding page_on(NeededRuns& needed, const std::vector<Item>& items) {
  Finding page{.title = page_title, .subtitle = "tier " + needed.tier(), .notes = {own_words(needed, "summary")}};
  Finding papers{.title = "The papers"};
  const std::vector<const Sheet*> sheets = sheets_of(needed, items);
  std::set<std::string> known;
  for (const Sheet* sheet : sheets) {
    if (sheet->compares_methods) add_differences(page, *sheet, needed.finished(*sheet));
    const std::string paper = sheet->name.substr(0, sheet->name.find('-'));
    if (known.insert(paper).second) papers.notes.push_back(own_words(needed, paper));
  }
  Finding statements{.title = "Statements of the papers, and ours about their methods",
                     .tables = {statement_table(needed, sheets)}};
  page.sections = {papers, statements, {.title = "How this was made", .notes = {making_of(needed)}}};
  return page;
}

}  // namespace

// ---- The report

std::vector<std::string> problems_of(NeededRuns& needed, const Item& item) {
  std::vector<std::string> problems;
  for (const std::string& run : item.runs)
    if (const RunResult* result = needed.result(run); !result)
      problems.push_back(
          fmt::format("{} has no result, see {}", run, (needed.places().out / "logs" / (run + ".txt")).string()));
    else if (!result->failure.empty())
      problems.push_back(fmt::format("{} failed: {}", run, result->failure));
  for (const std::string& name : item.sheets) {
    const Sheet& sheet = needed.sheet(name);
    const SheetRuns runs = needed.finished(sheet);
    if (const std::string why = untrained(sheet, runs, needed.tier()); !why.empty())
      problems.push_back("untrained: " + why);
    for (const CheckedClaim& one : check_claims(sheet, runs))
      if (one.claim.is_required && one.verdict != Verdict::holds)
        problems.push_back(fmt::format("must hold, and {}: {}{}",
                                       one.verdict == Verdict::fails ? "does not" : "is not measured", one.claim.text,
                                       one.ours_text().empty() ? "" : " (" + one.ours_text() + ")"));
  }
  for (const Step& step : item.steps) {
    if (!step.has_inputs) continue;
    if (!fs::exists(step.output)) {
      problems.push_back("failed: " + step.text);
      continue;
    }
    const std::string output = contents_of_file(step.output);
    for (const std::string& text : step.shows)
      if (output.find(text) == std::string::npos)
        problems.push_back(fmt::format("'{}' is not in the output of {}", text, step.text));
  }
  return problems;
}

Finding report_on(NeededRuns& needed, const std::vector<Item>& items,
                  const std::vector<std::vector<std::string>>& problems) {
  Table states({"item", "", "state"});
  Finding report{.title = "Tables and figures of the papers"};
  std::size_t done = 0;
  std::set<std::string> known;
  for (std::size_t k = 0; k < items.size(); ++k) {
    const Item& item = items[k];
    done += problems[k].empty();
    states.row({item.id, item.title, problems[k].empty() ? "done" : listed(problems[k], "; ")});
    Finding section{.title = item.id, .subtitle = item.title};
    if (!item.shows.empty()) section.notes.push_back("Expected: " + item.shows);
    for (const std::string& name : item.sheets) {
      if (!known.insert(name).second) continue;
      const Sheet& sheet = needed.sheet(name);
      for (Finding::NamedTable& table : tables_of(sheet, needed.finished(sheet))) section.tables.push_back(table);
    }
    add_outputs(section, needed, item, needed.places().out);
    report.sections.push_back(std::move(section));
  }
  report.notes = {
      fmt::format("{} of {} items are done at the tier '{}'. A statement that must hold fails an item; others "
                  "are only printed.",
                  done, items.size(), needed.tier())};
  report.tables = {{"Items", states}};
  for (const RunResult* run : needed.read_runs()) report.add_origin(*run);
  return report;
}

void write_results(NeededRuns& needed, const std::vector<Item>& items, const fs::path& file) {
  std::string first_line;
  std::getline(std::ifstream(file), first_line);
  require(!fs::exists(file) || first_line.starts_with(fmt::format("# {}: tier ", page_title)),
          "--results {}: the file exists and was not written by this command; name another one", file.string());
  const std::string page = contents_of(page_on(needed, items), Format::markdown);
  require(!needed.read_runs().empty(), "--results: there is no finished run for a table of the tier '{}' in {} or {}",
          needed.tier(), (needed.places().out / "runs").string(), needed.places().kept.string());
  write_file_atomically(file, page);
  fmt::print("results: {}\n", file.string());
}

}  // namespace fovea
