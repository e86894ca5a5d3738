#include "experiments/support/reproduce/results.h"

#include <algorithm>
#include <fstream>
#include <set>

#include <fmt/format.h>

#include "experiments/support/report/run_collection.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

constexpr const char* page_title = "The papers' statements, measured";

struct Paper {
  std::string key;  ///< what the names of its sheets begin with: "nguyen"
  std::vector<Sheet> sheets;

  /// "Nguyen et al. 2020"
  std::string name() const { return sheets.front().title.substr(0, sheets.front().title.find_first_of(",:")); }
};

/// The papers of the items, in their order, each sheet once.
std::vector<Paper> papers_of(const std::vector<Item>& items) {
  std::vector<Paper> papers;
  std::set<std::string> known;
  for (const Item& item : items)
    for (const Sheet& sheet : item.box.sheets) {
      if (!known.insert(sheet.name).second) continue;
      const std::string key = sheet.name.substr(0, sheet.name.find('-'));
      auto paper = std::find_if(papers.begin(), papers.end(), [&](const Paper& one) { return one.key == key; });
      if (paper == papers.end()) paper = papers.insert(papers.end(), Paper{key, {}});
      paper->sheets.push_back(sheet);
    }
  return papers;
}

/// The claims of a paper with the sheets that they are about.
struct Statement {
  std::string table;  ///< "table 1: translation"
  CheckedClaim checked;
};

std::vector<Statement> statements_of(NeededRuns& needed, const Paper& paper) {
  std::vector<Statement> statements;
  for (const Sheet& sheet : paper.sheets) {
    const std::size_t behind = sheet.title.find_first_of(",:");
    const std::string table = behind == std::string::npos ? sheet.title : sheet.title.substr(behind + 2);
    for (const CheckedClaim& one : check_claims(sheet, needed.finished(sheet)))
      statements.push_back({table.substr(0, table.find(':')), one});
  }
  return statements;
}

using Statements = std::vector<Statement>;

Statements those(const Statements& all, bool are_required, Verdict verdict) {
  Statements chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen), [&](const Statement& one) {
    return one.checked.claim.is_required == are_required && one.checked.verdict == verdict;
  });
  return chosen;
}

/// The statement with its numbers, without the verdict: "BLEU of 'a' is above that of 'b' (table 1: 31.2 and 30.41)".
std::string told(const Statement& one) {
  const std::string outcome = one.checked.outcome();
  return fmt::format("{} ({}: {}", one.checked.words, one.table, outcome.substr(outcome.find('(') + 1));
}

/// " 2 hold here: ...; ...." Empty without statements.
std::string sentence_on(const Statements& statements, const std::string& one_does, const std::string& several_do) {
  std::vector<std::string> texts;
  for (const Statement& one : statements) texts.push_back(told(one));
  if (texts.empty()) return "";
  std::string text = fmt::format(" {} {}: ", texts.size(), texts.size() == 1 ? one_does : several_do);
  for (std::size_t k = 0; k < texts.size(); ++k) text += (k > 0 ? "; " : "") + texts[k];
  return text + ".";
}

const char* is_or_are(std::size_t count) { return count == 1 ? "is" : "are"; }

/// The verdicts on a paper's statements as a paragraph.
std::string paragraph_on(const Statements& all) {
  const Statements held = those(all, false, Verdict::holds), failed = those(all, false, Verdict::fails),
                   open = those(all, false, Verdict::open), missing = those(all, false, Verdict::not_measured),
                   kept = those(all, true, Verdict::holds), broken = those(all, true, Verdict::fails);
  const std::size_t measured = held.size() + failed.size() + open.size();
  std::string text = measured == 0
                         ? "None of the paper's statements is measured."
                         : fmt::format("{} {} measured.", counted(measured, "statement"), is_or_are(measured));
  text += sentence_on(held, "holds here", "hold here");
  text += sentence_on(failed, "does not hold here", "do not hold here");
  text += sentence_on(open, "cannot be told", "cannot be told");
  if (measured > 0 && !missing.empty())
    text += fmt::format(" {} {} not measured.", missing.size(), is_or_are(missing.size()));
  if (!kept.empty())
    text += fmt::format(" {} that must hold at any size {}.", counted(kept.size(), "statement"),
                        kept.size() == 1 ? "does" : "do");
  return text + sentence_on(broken, "must hold at any size, and does not", "must hold at any size, and do not");
}

/// Texts of the file as a note; empty without a file.
std::string own_words(const Paper& paper) {
  std::ifstream file(fs::path(sheets_directory()) / (paper.key + ".md"), std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

Finding section_on(NeededRuns& needed, const Paper& paper, const Statements& statements) {
  Finding section{.title = paper.name()};
  if (!statements.empty()) section.notes.push_back(paragraph_on(statements));
  section.notes.push_back(own_words(paper));
  for (const Sheet& sheet : paper.sheets) {
    const SheetRuns runs = needed.finished(sheet);
    if (runs.size() < 2) continue;  // nothing to compare
    section.tables.push_back(table_of(sheet, runs));
    section.tables.back().name = sheet.title;
    if (const std::string why = untrained(sheet, runs, needed.tier()); !why.empty())
      section.tables.back().remarks.push_back("the first row is not trained enough to judge by: " + why);
  }
  return section;
}

/// Dates, versions and processors, without the names of machines and directories.
std::string making_of(const std::vector<const RunResult*>& runs) {
  std::vector<Json> starts;
  for (const RunResult* run : runs)
    for (const Json& start : starts_of(run->directory)) starts.push_back(start);
  std::vector<Json> here{start_entry("")};
  for (std::vector<Json>* all : {&starts, &here})
    for (Json& start : *all) start.erase("machine"), start.erase("command");
  return (starts.empty() ? "" : "Runs made " + summary_of(starts) + ". ") + "Page made " + summary_of(here) + ".";
}

Finding making_section(NeededRuns& needed, const std::vector<Paper>& papers) {
  Finding section{.title = "How this was made"};
  Table table({"sheet", "data", "runs", "seeds", "rows that lack runs"});
  for (const Paper& paper : papers)
    for (const Sheet& sheet : paper.sheets) {
      std::set<std::uint64_t> seeds;
      std::set<std::string> data;
      std::size_t count = 0;
      for (const auto& [key, runs] : needed.finished(sheet)) {
        count += runs.size();
        for (const RunResult* run : runs) seeds.insert(run->seed);
        data.insert(sheet.recipe(sheet.task(key.second)).tiers.at(needed.tier()).data);
      }
      const std::vector<std::string> missing = needed.incomplete_rows(sheet);
      if (count > 0 || !missing.empty())
        table.row({sheet.name, listed(std::vector<std::string>(data.begin(), data.end()), ", "), count, seeds.size(),
                   count == 0 ? "all" : fmt::format("{}", fmt::join(missing, "; "))});
    }
  const std::vector<const RunResult*> runs = needed.read_runs();
  section.notes = {
      fmt::format("`reproduce --tier {} --results` wrote this page from the records of {}; it is not edited "
                  "by hand. Sheets share runs.",
                  needed.tier(), counted(runs.size(), "run")),
      making_of(runs)};
  section.tables = {{"", table}};
  return section;
}

constexpr const char* how_to_read =
    "A statement *holds* if the 95 % interval of the difference lies on its side of 0, *does not hold* if it lies on "
    "the other, and otherwise we *cannot tell*: then a difference below 2.8 standard errors (more with few seeds) "
    "would "
    "not have been seen by a test at the level of 5 % with a power of 80 %. The squared standard error is the sum of "
    "two variances: that of a paired bootstrap over the test examples with the seeds pooled, and what seeds differ by "
    "beyond that, estimated from all rows of a table together (but for a row whose seeds differ far more, which has "
    "its "
    "own) and divided by the number of seeds; the interval is "
    "Student's, with the degrees of freedom that the seeds leave. With one seed the interval is about the test "
    "examples alone. Intervals are not corrected for the number of statements: of 20 differences that are 0, one "
    "will seem not to be. Statements that must hold at any size are compared number with number.";

Finding page_on(NeededRuns& needed, const std::vector<Item>& items) {
  Finding page{.title = page_title, .subtitle = "tier " + needed.tier()};
  page.notes = {
      "The papers' numbers stand beside ours. Data and sizes are not the papers': compare the order of rows "
      "and the distances between them, not values.",
      how_to_read};
  Table summary({"paper", "hold", "do not hold", "cannot tell", "not measured"});
  const std::vector<Paper> papers = papers_of(items);
  for (const Paper& paper : papers) {
    const Statements all = statements_of(needed, paper);
    const bool has_runs = std::any_of(paper.sheets.begin(), paper.sheets.end(),
                                      [&](const Sheet& sheet) { return needed.finished(sheet).size() > 1; });
    if (!all.empty())
      summary.row({paper.name(), those(all, false, Verdict::holds).size(), those(all, false, Verdict::fails).size(),
                   those(all, false, Verdict::open).size(), those(all, false, Verdict::not_measured).size()});
    if (has_runs) page.sections.push_back(section_on(needed, paper, all));
  }
  page.tables = {{"", summary}};
  page.sections.push_back(making_section(needed, papers));
  return page;
}

}  // namespace

void write_results(NeededRuns& needed, const std::vector<Item>& items, const fs::path& file) {
  std::string first_line;
  std::getline(std::ifstream(file), first_line);
  require(!fs::exists(file) || first_line.starts_with(std::string("# ") + page_title),
          "--results {}: the file exists and was not written by this command; name another one", file.string());
  const std::string page = contents_of(page_on(needed, items), Format::markdown);
  require(!needed.read_runs().empty(), "--results: there is no finished run of the tier '{}' in {} or {}",
          needed.tier(), (needed.places().out / "runs").string(), needed.places().records.string());
  write_file_atomically(file, page);
  fmt::print("results: {}\n", file.string());
}

}  // namespace fovea
