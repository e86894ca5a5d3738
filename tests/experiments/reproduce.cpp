// The items of `reproduce`, the runs that they need, and the program.
#include <fstream>
#include <map>
#include <set>

#include <boost/test/unit_test.hpp>

#include "experiments/support/program/run_directory.h"
#include "experiments/support/record/kept_runs.h"
#include "experiments/support/reproduce/pages.h"
#include "experiments/support/text/words.h"
#include "tests/experiments/markup.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

using Texts = std::vector<std::string>;
const Texts tiers{"smoke", "mini", "paper"};

Item item_of(const NeededRuns& needed, const std::string& id) { return load_items(needed, {id}).front(); }

/// The runs of an item.
Texts runs_of(const NeededRuns& needed, const std::string& item) { return item_of(needed, item).runs; }

/// The lines of an item's commands.
Texts commands_of(const NeededRuns& needed, const std::string& item) {
  Texts lines;
  for (const Step& step : item_of(needed, item).steps) lines.push_back(step.line);
  return lines;
}

bool has(const Texts& texts, const std::string& one) { return std::ranges::count(texts, one) > 0; }

/// Writes a run that seems to be finished, as far as `reproduce` looks.
void finish(const NeededRuns& needed, const std::string& name, RunResult run = {}) {
  run.row = "a";
  run.directory = needed.directory(name);
  if (run.configuration.is_null()) run.configuration = {{"program", "translate"}, {"data", "generated"}};
  std::filesystem::create_directories(run.directory);
  save_result(run);
}

/// Sentences of a language model with some nats more than others have.
TestResult test_with(double nats) {
  TestResult test{.metrics = {"perplexity"}};
  for (int i = 0; i < 50; ++i)
    test.examples.push_back(
        {.reference = "a b", .likelihood = {.negative_log = i % 7 + nats, .tokens = 3, .words = 3}});
  return test;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reproduction)

BOOST_AUTO_TEST_CASE(every_table_and_figure_has_an_item_that_runs_something_at_every_tier) {
  for (const std::string& tier : tiers) {
    const NeededRuns needed(tier, {.out = "out"});
    const std::vector<Item> items = load_items(needed, {});
    BOOST_TEST(items.size() == 55u);
    std::set<std::string> ids, sheets, runs;
    for (const Item& item : items) {
      BOOST_TEST(ids.insert(item.id).second, item.id);
      if (item.id != "X-reproduce") BOOST_TEST((!item.sheets.empty() || !item.steps.empty()), item.id);
      sheets.insert(item.sheets.begin(), item.sheets.end());
      for (const Step& step : item.steps)
        BOOST_TEST(!contains(step.line.substr(step.line.rfind(' ') + 1), "{"), step.text);
      for (const std::string& run : item.runs) {  // stands behind the run that it needs
        const std::string& needs = needed.jobs().at(run).needs;
        BOOST_TEST((needs.empty() || has({item.runs.begin(), std::ranges::find(item.runs, run)}, needs)));
        runs.insert(run);
      }
    }
    for (const std::string& sheet : sheet_names()) BOOST_TEST(sheets.contains(sheet), sheet + " is in no item");
    BOOST_TEST(runs.size() == needed.jobs().size());  // every run of a sheet is in an item
    BOOST_TEST(runs.size() > 80u);
  }
}

BOOST_AUTO_TEST_CASE(rows_with_the_same_flags_are_one_run_that_is_made_for_all_of_them) {
  const NeededRuns needed("smoke", {.out = "out"}), mini("mini", {.out = "out"});
  const auto shared_by = [&](const Texts& items) {
    std::map<std::string, std::size_t> number;
    for (const std::string& item : items)
      for (const std::string& run : runs_of(needed, item)) ++number[run];
    std::erase_if(number, [&](const auto& one) { return one.second < items.size(); });
    return number;
  };
  BOOST_TEST(shared_by({"N-T1", "Y-T3"}).size() == 2u);  // plain attention, and a Gaussian in the first layers
  const auto plain = shared_by({"N-T1", "Y-T3", "F-T3"});
  BOOST_TEST_REQUIRE(plain.size() == 1u);
  const Texts& rows = needed.jobs().at(plain.begin()->first).made_for;
  for (const char* row : {"nguyen-table-1, En-De: Vaswani", "yang-table-3: none", "fan-table-3: Transformer"})
    BOOST_TEST(has(rows, row), row);
  for (const std::string& name : runs_of(mini, "N-T1")) BOOST_TEST(!needed.jobs().contains(name));
  BOOST_TEST(runs_of(mini, "N-T1").size() == 3 * runs_of(needed, "N-T1").size());  // three seeds
  for (const char* row : {"fan-table-4: SMAN2", "fan-table-4: SMAN2, b = 6"})
    for (const NeededRuns* one : {&needed, &mini}) {  // some rows are those of a single tier
      const bool is_there = std::any_of(one->jobs().begin(), one->jobs().end(),
                                        [&](const auto& job) { return has(job.second.made_for, row); });
      BOOST_TEST(is_there == (one == &needed || !contains(row, "b = 6")), row);
    }
}

BOOST_AUTO_TEST_CASE(what_tests_or_continues_a_model_names_its_run) {
  const NeededRuns needed("smoke", {.out = "out"});
  std::map<RunJob::Kind, int> kinds;
  for (const std::string& name : runs_of(needed, "S-T1")) {
    const RunJob& job = needed.jobs().at(name);
    ++kinds[job.kind];
    const bool is_test = job.kind == RunJob::Kind::test, is_training = job.kind == RunJob::Kind::training;
    const Texts arguments = needed.arguments(name);
    BOOST_TEST(job.needs.empty() == is_training);
    BOOST_TEST(has(arguments, (is_test ? "--model=out/runs/" : "--init=out/runs/") + job.needs) == !is_training);
    BOOST_TEST(has(arguments, "--only=1/1") == !is_test);  // begins the run, or continues it
    for (const std::string& row : job.made_for)
      BOOST_TEST(contains(
          flags_text(
              {{"", *std::ranges::find_if(arguments, [](const auto& one) { return one.starts_with("--made-for="); })}}),
          row));
  }
  BOOST_TEST(kinds[RunJob::Kind::test] == 2);
  BOOST_TEST(kinds[RunJob::Kind::continuation] == 1);
}

BOOST_AUTO_TEST_CASE(commands_follow_the_tier_and_read_data_where_the_caller_says) {
  const NeededRuns smoke("smoke", {.out = "out"}), mini("mini", {.out = "out", .data = "/data"}),
      elsewhere("mini", {.out = "out", .data = "elsewhere/d"});
  BOOST_TEST(contains(commands_of(smoke, "G-mt").front(), "--train 1000 "));
  BOOST_TEST(contains(commands_of(mini, "G-mt").front(), "--train 20000 "));
  BOOST_TEST(commands_of(smoke, "S-T3").size() == 3u);  // the first makes the data
  BOOST_TEST(commands_of(mini, "S-T3").size() == 2u);
  BOOST_TEST(contains(commands_of(mini, "S-T3").front(), " --decode /data/small_parallel_enja/test.en "));
  const Texts names = runs_of(mini, "N-T6");
  BOOST_TEST(names == runs_of(elsewhere, "N-T6"), boost::test_tools::per_element());  // data do not name the run
  BOOST_TEST(has(mini.arguments(names.front()), "--data=/data/lm1b_sample"));
  BOOST_TEST(has(elsewhere.arguments(names.front()), "--data=elsewhere/d/lm1b_sample"));
}

BOOST_AUTO_TEST_CASE(mistakes_are_refused_in_one_line) {
  Folder folder;
  const std::string out = (folder / "out").string(), none = (folder / "none").string();
  const std::string own = (folder / "own.md").string(), empty = (folder / "empty").string();
  std::ofstream(own) << "# Results\n";
  std::filesystem::create_directory(empty);
  const std::vector<std::pair<Texts, std::string>> mistakes{
      {{"--list", "--records", none}, "--records " + none + ": there is no such directory"},
      {{"--list", "--out", own}, "--out " + own + ": is a file, expected a directory"},
      {{"--keep-records", empty, "--out", none}, "--out " + none + ": there is no such directory, with runs to keep"},
      {{"N-T6", "--tier", "mini", "--records", empty, "--out", out, "--results", own},
       "own.md: the file exists and was not written by this command"},
      {{"--tier", "mini", "--list", "--results", "page.md"}, "--list or --results: give one of them at a time"},
      {{"--commands", "--list"}, "--list or --commands: give one of them at a time"},
      {{"N-T11"}, "there is no item 'N-T11'; did you mean 'N-T1'?"},
      {{"N-T6", "--tier", "mini", "--data", none, "--records", empty, "--out", out},
       "/none: there is no such directory; the tier 'mini' trains on public data sets"},
      {{"N-T6", "--tier", "mini", "--records", empty, "--out", out, "--results", (folder / "page.md").string()},
       "there is no finished run for a table of the tier 'mini' in"}};
  for (const auto& [flags, message] : mistakes) {
    const Ended refused = ended("reproduce", flags);
    BOOST_TEST(refused.status == 2, message);
    BOOST_TEST(contains(refused.err, message), refused.err);
    BOOST_TEST(std::ranges::count(refused.err, '\n') == 1, refused.err);
  }
  BOOST_TEST(contents(own) == "# Results\n");
  BOOST_TEST(
      contains(ended("reproduce", {"N-T6", "--list", "--data", none}).err, "without effect: --data; the tier smoke"));
  const RunDirectory lock = RunDirectory::resume(folder.path);
  const std::string second = refusal_of(ended("reproduce", {"N-F1", "--out", folder.path.string()}));
  BOOST_TEST(contains(second, "another process is running in this directory"), second);
}

BOOST_AUTO_TEST_CASE(words_are_quoted_for_a_shell_where_that_is_needed) {
  for (const char* plain : {"a", "--x=1,2", "a/b.c", "τ"}) BOOST_TEST(quoted_for_shell(plain) == plain);
  BOOST_TEST(quoted_for_shell("window(use=additive)") == "'window(use=additive)'");
  BOOST_TEST(quoted_for_shell("") == "''");
  BOOST_TEST(quoted_for_shell("it's") == "'it'\\''s'");
}

BOOST_AUTO_TEST_CASE(a_training_that_failed_is_a_problem_of_its_items) {
  Folder folder;
  NeededRuns needed("smoke", {.out = folder.path});
  for (const std::string& name : runs_of(needed, "W-5"))
    finish(needed, name, {.failure = "training diverged at update 3"});
  const std::vector<Item> items = load_items(needed, {"W-5"});
  const Texts problems = problems_of(needed, items.front());
  BOOST_TEST(contains(problems.at(0), "failed: training diverged at update 3"), problems.at(0));
  const std::string report = contents_of(report_on(needed, items, {problems}), Format::markdown);
  BOOST_TEST(contains(report, "0 of 1 items are done"), report);
}

BOOST_AUTO_TEST_CASE(a_kept_run_takes_the_place_of_a_run_but_not_of_its_model) {
  Folder folder;
  const NeededRuns::Places places{.out = folder / "out", .data = {}, .kept = folder / "kept"};
  NeededRuns before("smoke", places);
  const Texts names = runs_of(before, "N-T6");
  for (const std::string& name : {names.front(), runs_of(before, "Y-F2").front()})
    finish(before, name,
           {.configuration = {{"program", "language_model"}, {"data", "generated"}}, .tests = {test_with(3)}});
  save_start(before.directory(names.front()), "language_model");
  BOOST_TEST(ended("reproduce", {"--out", places.out.string(), "--keep-records", places.kept.string()}).out ==
             "2 runs and 0 outputs written into " + places.kept.string() + "\n");
  std::filesystem::remove_all(places.out);
  NeededRuns needed("smoke", places);
  BOOST_TEST((needed.is_finished(names.front()) && !needed.is_made(names.front())));
  BOOST_TEST(!needed.is_finished(names.back()));
  BOOST_TEST(needed.finished(needed.sheet("nguyen-table-6")).size() == 1u);
  BOOST_TEST(report_on(needed, load_items(needed, {"N-T6"}), std::vector<Texts>(1)).starts.size() == 1u);
  const std::vector<NinjaStep> steps = ninja_steps(needed, load_items(needed, {"N-T6", "Y-F2"}));
  BOOST_TEST(steps.size() == names.size() - 1);  // no command of Y-F2, which reads a model
  for (const NinjaStep& step : steps) BOOST_TEST(step.output != needed.directory(names.front()) / "result.json");
}

BOOST_AUTO_TEST_CASE(the_output_of_a_command_is_kept_with_the_runs) {
  Folder folder;
  const std::filesystem::path out = folder / "out", kept = folder / "kept";
  const NeededRuns::Places places{.out = out, .data = {}, .kept = kept};
  NeededRuns needed("mini", places);
  for (const std::string& name : runs_of(needed, "Y-F2")) finish(needed, name);
  const Item item = load_items(needed, {"Y-F2"}).front();
  BOOST_TEST_REQUIRE(item.steps.size() == 1u);
  const Step& step = item.steps.front();
  BOOST_TEST(!output_of(needed, item, step).has_value());
  std::filesystem::create_directories(step.output.parent_path());
  std::string lines;
  for (int k = 1; k <= 60; ++k) lines += fmt::format("line {}\n", k);
  std::ofstream(step.output) << out.string() + "/runs/a written\nwidths: 3.25\n" + lines +
                                    "\nRuns made 2026 on a machine\nPrinted 2026 on a machine\n";
  std::ofstream(out / "items/Y-F2/widths.svg")
      << "<svg>\n<desc>Runs made on a machine\nPrinted on a\nmachine</desc>12.5</svg>";
  std::ofstream(out / "items/Y-F2/other.svg") << "<svg>a text of the data</svg>";  // not of this command
  BOOST_TEST(contains(output_of(needed, item, step)->command, out.string()));
  succeeded(ended("reproduce", {"Y-F2", "--tier", "mini", "--out", out.string(), "--keep-records", kept.string()}));
  BOOST_TEST(!std::filesystem::exists(kept / "items/Y-F2/other.svg"));

  std::filesystem::remove_all(out);
  const NeededRuns again("mini", places);
  const Item planned = load_items(again, {"Y-F2"}).front();
  Step lacks_model = planned.steps.front();
  const std::optional<StepOutput> output = output_of(again, planned, lacks_model);
  BOOST_TEST_REQUIRE(output.has_value());
  BOOST_TEST(contains(output->command, "analyze widths {yang-table-1/Head-Spec.}"), output->command);
  BOOST_TEST(contains(output->origin, " with fovea "), output->origin);
  Finding section;
  add_outputs(section, again, planned, kept);
  BOOST_TEST_REQUIRE(section.outputs.size() == 1u);
  const std::string& text = section.outputs.front();
  for (const char* part : {"{out}/runs/a written\nwidths: 3.25\n", "\nline 8\n... (", "\nline 59\nline 60\n"})
    BOOST_TEST(contains(text, part), text);
  for (const char* part : {"a machine", "\nline 9\n"}) BOOST_TEST(!contains(text, part), text);
  BOOST_TEST_REQUIRE(section.figures.size() == 1u);
  const Figure& picture = section.figures.front();
  BOOST_TEST(picture.file == "items/Y-F2/widths.svg");
  BOOST_TEST(picture.svg == "<svg>12.5</svg>");

  for (const char* part : {"tier", "command", "runs"}) {
    Step changed = lacks_model;
    changed.identity[part] = "another";
    BOOST_TEST(!output_of(again, planned, changed).has_value(), part);
  }
  // A command that failed in this directory must not seem to have worked because an older output is kept.
  Step failed = lacks_model;
  failed.has_inputs = true;
  BOOST_TEST(output_of(again, planned, failed).has_value());
  std::filesystem::create_directories(failed.output.parent_path());
  BOOST_TEST(!output_of(again, planned, failed).has_value());
  std::filesystem::remove(kept / "items/Y-F2/1.txt");
  BOOST_TEST(contains(message_of([&] { output_of(again, planned, lacks_model); }), "1.txt: the file is missing"));
}

BOOST_AUTO_TEST_CASE(the_spread_between_seeds_is_that_of_trainings_on_the_same_data) {
  Folder folder;
  NeededRuns needed("mini", {.out = folder.path});
  for (const std::string& name : runs_of(needed, "X-localness"))
    if (contains(needed.jobs().at(name).made_for.front(), ": plain")) finish(needed, name);
  const SheetRuns runs = needed.finished(needed.sheet("localness"));
  for (const char* task : {"majority", "displaced"}) {  // one recipe, but other data
    BOOST_TEST(runs.at({"plain", task}).size() == 3u);
    BOOST_TEST((runs.alike.at(task)->rows == std::vector<SeedRuns>{runs.at({"plain", task})}));
  }
}

BOOST_AUTO_TEST_CASE(results_are_written_from_kept_runs_alone) {
  Folder folder;
  const std::string page = (folder / "page.md").string(), kept = (folder / "kept").string();
  const auto write = [&](const std::string& directory, const Texts& items) {
    return ended("reproduce", joined(items, {"--tier", "mini", "--records", directory, "--out",
                                             (folder / "out").string(), "--results", page}));
  };
  const auto keep_runs = [&](double nats_of_plain) {
    NeededRuns needed("mini", {.out = folder / "made", .data = {}, .kept = {}});
    for (const std::string& name : runs_of(needed, "N-T6")) {
      const std::string& row = needed.jobs().at(name).made_for.front();
      if (!contains(row, "Dec(AW)"))
        finish(needed, name,
               {.configuration = {{"program", "language_model"}, {"data", "generated"}},
                .tests = {test_with(contains(row, "Dec(MW)") ? 5 : nats_of_plain)}});
    }
    succeeded(ended("reproduce", {"--tier", "mini", "--out", (folder / "made").string(), "--keep-records", kept}));
  };
  const Texts items{"N-T6", "N-T5", "N-F3", "X-methods"};
  keep_runs(9);
  succeeded(write(kept, items));
  succeeded(write(kept, items));  // its own page is replaced
  const std::string text = contents(page);
  for (const char* part :
       {"# The papers' statements, measured: tier mini\n", "\n**Nguyen et al. 2020.** ",
        "\n| Multiplicative windows lower the perplexity of a language model | Nguyen et al. 2020, table 6 |",
        " -2.37 |",  // 44.00 - 46.37
        " | holds   |\n", " statements more: not measured.\n",
        "from the records of 12 runs and the paragraphs in sheets/."})
    BOOST_TEST(contains(text, part), part << " is not in\n" << text);
  for (const char* row : {"Multiplicative windows", "Dec(MW) (Nguyen)"}) BOOST_TEST(count(text, row) == 1u, text);
  BOOST_TEST(!contains(text, folder.path.string()));
  BOOST_TEST(!contains(text, "analyze"));  // of commands only what they have printed
  keep_runs(19);                           // replaces the runs; a perplexity of exp(22 / 3)
  succeeded(write(kept, items));
  const std::string untrained = contents(page);
  BOOST_TEST(contains(untrained, "| open: the first row is not trained enough |"), untrained);
  BOOST_TEST(!contains(untrained, "| holds"), untrained);
  std::ofstream(kept + "/methods.jsonl", std::ios::app) << "{";
  const std::string damaged = refusal_of(write(kept, items));
  BOOST_TEST(contains(damaged, kept + "/methods.jsonl:13: "), damaged);
  BOOST_TEST(contents(page) == untrained);
}

BOOST_AUTO_TEST_CASE(the_page_in_the_repository_is_what_its_records_say) {
  Folder folder;
  const std::string page = (folder / "page.md").string();
  succeeded(ended("reproduce", {"--tier", "mini", "--out", (folder / "out").string(), "--results", page}));
  const std::string made = contents(page), kept = contents(kept_runs_directory() / "README.md");
  BOOST_TEST((made == kept), "experiments/results/README.md is not the page that reproduce --results makes");
  BOOST_TEST(count(made, "\n") <= 300u);
}

BOOST_AUTO_TEST_CASE(the_commands_of_missing_runs_are_printed_and_nothing_is_run) {
  Folder folder;
  const std::string out = (folder / "out").string();
  NeededRuns needed("smoke", {.out = out});
  const Texts names = runs_of(needed, "N-T6");
  finish(needed, names.at(1));
  const Ended printed = succeeded(ended("reproduce", {"N-T6", "--commands", "--out", out}));
  for (const std::string& name : names)
    BOOST_TEST(count(printed.out, "--out=" + out + "/runs/" + name) == (name == names[1] ? 0u : 1u), printed.out);
  BOOST_TEST(contains(printed.out, "language_model "), printed.out);
}

BOOST_AUTO_TEST_CASE(a_run_is_kept_with_the_lengths_of_its_inputs_and_all_metrics_that_tables_show) {
  Folder folder;
  const NeededRuns::Places places{.out = folder / "out", .data = {}, .kept = folder / "kept"};
  NeededRuns before("mini", places);
  const std::string name = runs_of(before, "Y-T3").front();  // whose column is mteval's BLEU
  RunResult run{.configuration = {{"program", "translate"}, {"data", "generated"}}, .tests = {{.metrics = {"bleu"}}}};
  for (const char* words : {"a b", "c d e f g", "h i j"})
    run.tests[0].examples.push_back(
        {.input = words, .reference = "x y z v w", .hypothesis = std::string("x y z v ") + words});
  finish(before, name, run);
  succeeded(
      ended("reproduce", {"--tier", "mini", "--out", places.out.string(), "--keep-records", places.kept.string()}));
  std::filesystem::remove_all(places.out);
  NeededRuns needed("mini", places);
  const RunResult& kept = *needed.result(name);
  BOOST_TEST((kept.tests[0].lengths() == std::vector<std::size_t>{2, 5, 3}));
  for (const char* metric : {"BLEU", "mteval BLEU, lower case", "shortest third: BLEU", "longest third: BLEU"}) {
    RunResult whole = run;
    whole.tests[0].metrics = {"bleu", "mteval"};
    BOOST_TEST(measured(kept, metric) > 0, metric);
    BOOST_TEST(measured(kept, metric) == measured(whole, metric), metric);
  }
}

BOOST_AUTO_TEST_CASE(runs_of_other_sheets_that_are_trained_alike_are_in_the_spread) {
  Folder folder;
  const NeededRuns needed("mini", {.out = folder.path});
  const auto rows_alike = [&] {
    NeededRuns fresh("mini", {.out = folder.path});
    return fresh.finished(fresh.sheet("nguyen-table-1")).alike.at("En-De")->rows.size();
  };
  for (const std::string& name : runs_of(needed, "N-T1")) finish(needed, name);
  const std::size_t alone = rows_alike();
  BOOST_TEST(alone == needed.sheet("nguyen-table-1").rows.size());
  for (const std::string& name : runs_of(needed, "F-T3")) finish(needed, name);
  BOOST_TEST(rows_alike() > alone);
}

BOOST_AUTO_TEST_CASE(every_kept_run_belongs_to_a_row_and_a_sheet_shows_the_same_runs_to_report_and_reproduce) {
  Folder folder;
  NeededRuns needed("mini", {.out = folder.path, .data = {}, .kept = kept_runs_directory()});
  const std::vector<RunResult> kept = load_kept_runs(kept_runs_directory());
  BOOST_TEST(kept.size() > 50u);
  std::set<std::string> rows;
  for (const auto& [name, sheet] : needed.sheets())
    for (const Sheet::Task& task : sheet.tasks)
      for (const Sheet::Row& row : sheet.rows) rows.insert(name_of(sheet, task, row));
  for (const RunResult& run : kept) {
    BOOST_TEST(!run.made_for.empty(), run.name);
    for (const std::string& row : run.made_for) BOOST_TEST(rows.contains(row), run.name + ": there is no row " + row);
    BOOST_TEST(needed.jobs().contains(run.name), run.name + " is not what its rows train today");
  }
  for (const auto& [name, sheet] : needed.sheets()) {
    std::map<std::pair<std::string, std::string>, Texts> shown, made;
    for (const auto& [row, runs] : fovea::runs_of(sheet, kept))
      for (const RunResult* run : runs) shown[row].push_back(run->name);
    for (const auto& [row, runs] : needed.finished(sheet))
      for (const RunResult* run : runs) made[row].push_back(run->name);
    BOOST_TEST((shown == made), name);
  }
}

BOOST_AUTO_TEST_CASE(an_item_is_made_once_its_report_has_its_figures_and_what_failed_is_tried_again) {
  Folder folder;
  const std::string out = (folder / "out").string();
  const std::filesystem::path made = folder / "out/items/N-F1/1.txt", other = folder / "out/items/S-F2/1.txt";
  const Ended first = succeeded(ended("reproduce", {"N-F1", "S-F2", "--out", out}));
  BOOST_TEST(contains(first.out, "2 of 2 items are done"), first.out);
  const std::string page = contents(folder / "out/report.html"), text = contents(folder / "out/report.md");
  BOOST_TEST(markup_error(page) == "");
  BOOST_TEST(count(page, "<figure>") == 2u);
  for (const char* part : {"## N-F1: ", "analyze compute 'window(pointers=given)'", "](items/N-F1/window.svg)"})
    BOOST_TEST(contains(text, part), part);
  const auto time = std::filesystem::last_write_time(made);
  const Ended again = succeeded(ended("reproduce", {"N-F1", "S-F2", "--out", out}));
  BOOST_TEST(contains(again.err, "ninja: no work to do."), again.err);
  std::filesystem::remove(other);
  BOOST_TEST(contains(ended("reproduce", {"S-F2", "--list", "--out", out}).out, "0 of 1"));
  succeeded(ended("reproduce", {"N-F1", "S-F2", "--out", out}));
  BOOST_TEST(std::filesystem::exists(other));
  BOOST_TEST((std::filesystem::last_write_time(made) == time));
}

BOOST_AUTO_TEST_CASE(ninja_goes_on_after_a_failure_and_makes_what_is_missing_or_changed) {
  Folder folder;
  const std::filesystem::path hostile = folder / "a $b: 'c'";  // a name with what has a meaning for ninja and shells
  std::filesystem::create_directories(hostile);
  const auto command = [&](const std::string& text, const std::filesystem::path& to) {
    return fmt::format("{} >> {}", text, quoted_for_shell(to.string()));
  };
  const std::filesystem::path one = hostile / "one", two = hostile / "two", bad = folder / "bad",
                              after = folder / "after";
  const auto make = [&](const std::string& text) {
    std::ofstream(folder / "build.ninja") << ninja_file(
        {{one, {}, command("echo " + text, one), "one"},
         {two, {one}, command("{ echo '$HOME #'; cat; }", two) + " < " + quoted_for_shell(one.string()), "two $"},
         {bad, {}, "exit 3", "bad"},
         {after, {bad}, command("echo", after), "after"}},
        folder.path);
    int status = 0;  // in a child, whose output does not mix with that of the test
    status = status_in_child([&] {
      ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
      return run_ninja(folder / "build.ninja", 2) ? 0 : 1;
    });
    return status;
  };
  BOOST_TEST(make("first") == 1);
  BOOST_TEST(contents(one) == "first\n");
  BOOST_TEST(contents(two) == "$HOME #\nfirst\n");
  BOOST_TEST(!std::filesystem::exists(after));
  BOOST_TEST(make("first") == 1);
  BOOST_TEST(contents(one) == "first\n");  // not made again
  BOOST_TEST(make("second") == 1);
  BOOST_TEST(contents(one) == "first\nsecond\n");
  BOOST_TEST(contains(contents(two), "$HOME #\nfirst\n$HOME #\nfirst\nsecond\n"), contents(two));
}

BOOST_AUTO_TEST_SUITE_END()
