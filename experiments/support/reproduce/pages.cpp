#include "experiments/support/reproduce/pages.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include <fmt/core.h>

#include "experiments/support/report/run_collection.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

constexpr const char* of_searched_rates = ", with searched learning rates";

struct Paper {
  std::string key;  ///< what the names of its sheets begin with: "nguyen"
  std::vector<const Sheet*> sheets;

  /// "Nguyen et al. 2020"
  std::string name() const { return sheets.front()->title.substr(0, sheets.front()->title.find_first_of(",:")); }
};

/// The papers of the items, in their order, each sheet once.
std::vector<Paper> papers_of(const NeededRuns& needed, const std::vector<Item>& items) {
  std::vector<Paper> papers;
  std::set<std::string> known;
  for (const Item& item : items)
    for (const std::string& name : item.sheets) {
      if (!known.insert(name).second) continue;
      const std::string key = name.substr(0, name.find('-'));
      auto paper = std::ranges::find_if(papers, [&](const Paper& one) { return one.key == key; });
      if (paper == papers.end()) paper = papers.insert(papers.end(), Paper{key, {}});
      paper->sheets.push_back(&needed.sheet(name));
    }
  return papers;
}

/// A claim with its outcome for the learning rates of the recipes and, if it was measured, for searched ones.
struct Statement {
  std::string table;  ///< "table 1"
  CheckedClaim given;
  std::optional<CheckedClaim> searched;
  std::string same_as = {};  ///< the table that compares the same runs, and with which the statement is counted
};

using Statements = std::vector<Statement>;

constexpr const char* page_title = "The papers' statements, measured";

/// "table 1", of a sheet with the title "Nguyen et al. 2020, table 1: translation".
std::string table_of_title(const std::string& title) {
  const std::size_t behind = title.find_first_of(",:");
  const std::string table = behind == std::string::npos ? title : title.substr(behind + 2);
  return table.substr(0, table.find(':'));
}

/// The claims of a sheet; those that are not required are not judged if the first row is not trained enough.
std::vector<CheckedClaim> judged_claims(const Sheet& sheet, const SheetRuns& runs, const std::string& tier) {
  std::vector<CheckedClaim> claims = check_claims(sheet, runs);
  if (untrained(sheet, runs, tier).empty()) return claims;
  for (CheckedClaim& one : claims)
    if (!one.claim.is_required && one.verdict != Verdict::not_measured) {
      one.verdict = Verdict::open;
      one.why_open = "the first row is not trained enough to judge by";
    }
  return claims;
}

Statements statements_of(NeededRuns& needed, const Paper& paper) {
  Statements statements;
  for (const Sheet* sheet : paper.sheets) {
    const auto judged = [&](Rates rates) {
      return judged_claims(*sheet, needed.finished(*sheet, rates), needed.tier());
    };
    const std::vector<CheckedClaim> given = judged(Rates::given), searched = judged(Rates::searched);
    for (std::size_t k = 0; k < given.size(); ++k) {
      const auto same = std::ranges::find_if(
          statements, [&](const Statement& before) { return before.given.is_same_comparison(given[k]); });
      const std::string same_as = same == statements.end() ? "" : same->table;
      statements.push_back({table_of_title(sheet->title), given[k], {}, same_as});
      const bool depends_on_rates = !given[k].claim.is_required;
      if (depends_on_rates && searched[k].verdict != Verdict::not_measured) statements.back().searched = searched[k];
    }
  }
  return statements;
}

/// How many statements have the verdict with the given learning rates, among those that must hold at any size, which
/// check our programs, or among the others, which are the paper's.
std::int64_t count(const Statements& all, Verdict verdict, bool required = false) {
  return std::ranges::count_if(all, [&](const Statement& one) {
    return one.given.claim.is_required == required && one.given.verdict == verdict && one.same_as.empty();
  });
}

/// A row for each statement, one after the other for given and for searched learning rates. Statements that must hold
/// at any size have a row only where they do not.
Finding::NamedTable statement_table(const Statements& all) {
  Table table({"statement", "table", "learning rates", "difference, paper", "ours", "difference, ours (95 % interval)",
               "verdict"});
  for (const Statement& one : all) {
    const auto add = [&](const CheckedClaim& checked, const char* rates) {
      if (checked.verdict == Verdict::not_measured) return;
      if (checked.claim.is_required && checked.verdict == Verdict::holds) return;
      std::vector<Cell> cells = checked.cells();
      cells.insert(cells.begin() + 1, {one.table, rates});
      const bool is_given = &checked == &one.given;  // with searched rates the runs of the other table may be others
      if (is_given && !one.same_as.empty()) cells.back() = "as in " + one.same_as;
      table.row(std::move(cells));
    };
    add(one.given, "given");
    if (one.searched) add(*one.searched, "searched");
  }
  std::vector<std::string> others;
  if (const auto checks = count(all, Verdict::holds, true); checks > 0)
    others.push_back(fmt::format("{} that must be true of any training, such as about the sizes of models, {}",
                                 counted(checks, "statement"), checks == 1 ? "holds" : "hold"));
  if (const auto rest = count(all, Verdict::not_measured); rest > 0)
    others.push_back(fmt::format("{} {} not measured", counted(rest, "statement"), rest == 1 ? "is" : "are"));
  return {.name = "The paper's statements",
          .table = table,
          .caption = others.empty() ? "" : "Not in the table: " + listed(others, "; ") + "."};
}

/// Appends a row for each measured statement that the paper is known for.
void add_main_statements(Table& table, const Paper& paper, const Statements& all) {
  for (const Statement& one : all)
    if (!one.given.claim.says.empty() && one.given.verdict != Verdict::not_measured)
      table.row({paper.name() + ", " + one.table, one.given.claim.says,
                 Cell::number(one.given.in_paper, one.given.decimals), one.given.outcome_text(),
                 one.searched ? one.searched->outcome_text() : ""});
}

/// The text of NAME.md beside the sheets; empty without a file.
std::string text_beside_sheets(const std::string& name) {
  std::string text = text_of_file(fs::path(sheets_directory()) / (name + ".md"));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

/// The same, of a text that is about the tier mini; empty for other tiers.
std::string own_words(const NeededRuns& needed, const std::string& name) {
  return needed.tier() == "mini" ? text_beside_sheets(name) : "";
}

Finding section_on(NeededRuns& needed, const Paper& paper, const Statements& statements) {
  Finding section{.title = paper.name(), .notes = {own_words(needed, paper.key)}};
  if (!statements.empty()) section.tables.push_back(statement_table(statements));
  const auto add = [&](const Sheet& sheet, const SheetRuns& runs, const std::string& rates) {
    // Nothing to compare; or a part of settings that only say something beside each other.
    const auto [complete, rows] = needed.complete_rows(sheet);
    if (runs.size() < 2 || (sheet.claims.empty() && complete < rows)) return;
    Finding::NamedTable& table = section.tables.emplace_back(Finding::NamedTable{
        sheet.title + rates, sheet_table(sheet, runs), setting_of(sheet, runs)});  // how to read it: on top of the page
    if (const std::string why = untrained(sheet, runs, needed.tier()); !why.empty())
      table.caption += fmt::format(" The first row is not trained enough to judge by: {}.", why);
  };
  for (const Sheet* sheet : paper.sheets) {
    add(*sheet, needed.finished(*sheet), "");
    const SheetRuns searched = needed.finished(*sheet, Rates::searched);
    if (searched.size() < 2) continue;
    add(*sheet, searched, of_searched_rates);
    for (Finding::NamedTable& table : needed.search_tables(*sheet)) section.tables.push_back(std::move(table));
  }
  return section;
}

/// Dates, versions and processors, without the names of machines and directories.
std::string making_of(const std::vector<const RunResult*>& runs) {
  std::vector<Json> starts;
  for (const RunResult* run : runs)
    for (const Json& start : starts_of(*run)) starts.push_back(start);
  std::vector<Json> here{start_entry("")};
  for (std::vector<Json>* all : {&starts, &here})
    for (Json& start : *all) start = start_without_places(start);
  return (starts.empty() ? "" : "Runs made " + summary_of(starts) + ". ") + "Page made " + summary_of(here) + ".";
}

Finding making_section(NeededRuns& needed, const std::vector<Paper>& papers) {
  Finding section{.title = "How this was made"};
  Table table({"sheet", "data", "runs", "seeds", "complete rows"});
  Table recipes({"data", "our flags"});
  std::set<std::string> known;
  for (const Paper& paper : papers)
    for (const Sheet* sheet : paper.sheets) {
      std::set<std::uint64_t> seeds;
      std::set<std::string> data;
      std::size_t count = 0;
      for (const auto& [key, runs] : needed.finished(*sheet)) {
        count += runs.size();
        for (const RunResult* run : runs) seeds.insert(run->seed);
        const Recipe::Tier& tier = sheet->recipe(sheet->task(key.second)).tiers.at(needed.tier());
        data.insert(tier.data);
        if (known.insert(tier.flags).second) recipes.row({tier.data, tier.flags});
      }
      const auto [complete, rows] = needed.complete_rows(*sheet);
      if (rows > 0)
        table.row({sheet->name, listed(std::vector<std::string>(data.begin(), data.end()), ", "), count, seeds.size(),
                   fmt::format("{} of {}", complete, rows)});
    }
  const std::vector<const RunResult*> runs = needed.read_runs();
  section.notes = {
      fmt::format("`reproduce --tier {} --results` wrote this page from the records of {}; it is not edited "
                  "by hand. Sheets share runs.",
                  needed.tier(), counted(runs.size(), "run")),
      making_of(runs)};
  section.tables = {{"The sheets", table}, {"The trainings", recipes}};
  return section;
}

constexpr const char* about_main_statements =
    "**What the papers are known for**, and what we measure: a difference with its 95 % interval, and whether the "
    "statement holds by it. The last column has the same with a learning rate searched for each row, where we made the "
    "search. The sections of the papers have all their statements, and say how far to trust our numbers.";

/// The page on the papers of the items. Links to figures are relative to the directory `from`.
Finding page_on(NeededRuns& needed, const std::vector<Item>& items, const fs::path& from) {
  Finding page{.title = page_title, .subtitle = "tier " + needed.tier(), .notes = {own_words(needed, "summary")}};
  Table main({"paper", "what it is known for", "difference, paper", "ours (95 % interval), given learning rates",
              "ours, searched learning rates"});
  Table verdicts({"paper", "hold", "do not hold", "cannot tell", "not measured"});
  std::vector<Finding> sections;
  const std::vector<Paper> papers = papers_of(needed, items);
  for (const Paper& paper : papers) {
    const bool has_runs =
        std::ranges::any_of(paper.sheets, [&](const Sheet* sheet) { return needed.finished(*sheet).size() > 1; });
    if (!has_runs) continue;
    const Statements all = statements_of(needed, paper);
    if (!all.empty())
      verdicts.row({paper.name(), count(all, Verdict::holds), count(all, Verdict::fails), count(all, Verdict::open),
                    count(all, Verdict::not_measured)});
    add_main_statements(main, paper, all);
    sections.push_back(section_on(needed, paper, all));
  }
  if (!main.is_empty()) {
    page.notes.emplace_back(about_main_statements);
    page.tables.push_back({"", main});
  }
  page.sections = {
      {.title = "How to read this page", .notes = {text_beside_sheets("reading")}, .tables = {{"", verdicts}}}};
  std::move(sections.begin(), sections.end(), std::back_inserter(page.sections));
  Finding outputs{.title = "Outputs of commands"};
  for (const Item& item : items) {
    Finding section{.title = item.id, .subtitle = item.title};
    if (!item.shows.empty()) section.notes.push_back("Expected: " + item.shows);
    add_outputs(section, needed, item, from);
    if (!section.outputs.empty()) outputs.sections.push_back(std::move(section));
  }
  if (!outputs.sections.empty()) page.sections.push_back(std::move(outputs));
  page.sections.push_back(making_section(needed, papers));
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
                                       one.numbers.empty() ? "" : " (" + one.numbers + ")"));
  }
  for (const Step& step : item.steps) {
    if (!step.has_inputs) continue;
    if (!fs::exists(step.output)) {
      problems.push_back("failed: " + step.text);
      continue;
    }
    const std::string output = text_of_file(step.output);
    for (const std::string& text : step.shows)
      if (output.find(text) == std::string::npos)
        problems.push_back(fmt::format("'{}' is not in the output of {}", text, step.text));
  }
  return problems;
}

Finding report_on(NeededRuns& needed, const std::vector<Item>& items,
                  const std::vector<std::vector<std::string>>& problems) {
  Table states({"item", "", "state"});
  std::size_t done = 0;
  for (std::size_t k = 0; k < items.size(); ++k) {
    done += problems[k].empty();
    states.row({items[k].id, items[k].title, problems[k].empty() ? "done" : listed(problems[k], "; ")});
  }
  Finding report = page_on(needed, items, needed.places().out);
  report.title = "Tables and figures of the papers";
  report.notes.insert(report.notes.begin(), fmt::format("{} of {} items are done at the tier '{}'. A statement that "
                                                        "must hold fails an item; others are only printed.",
                                                        done, items.size(), needed.tier()));
  report.tables.insert(report.tables.begin(), {"Items", states});
  for (const RunResult* run : needed.read_runs()) report.runs.push_back(run->directory);
  return report;
}

void write_results(NeededRuns& needed, const std::vector<Item>& items, const fs::path& file) {
  std::string first_line;
  std::getline(std::ifstream(file), first_line);
  require(!fs::exists(file) || first_line.starts_with(fmt::format("# {}: tier ", page_title)),
          "--results {}: the file exists and was not written by this command; name another one", file.string());
  std::vector<Item> kept = items;  // of their commands those whose outputs may be kept
  for (std::size_t k = 0; k < items.size(); ++k)
    std::erase_if(kept[k].steps, [&](const Step& step) { return !step.is_kept || !output_of(needed, items[k], step); });
  const std::string page = contents_of(page_on(needed, kept, fs::absolute(file).parent_path()), Format::markdown);
  require(!needed.read_runs().empty(), "--results: there is no finished run for a table of the tier '{}' in {} or {}",
          needed.tier(), (needed.places().out / "runs").string(), needed.places().kept.string());
  write_file_atomically(file, page);
  fmt::print("results: {}\n", file.string());
}

}  // namespace fovea
