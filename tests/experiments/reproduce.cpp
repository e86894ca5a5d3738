// The items of `reproduce`, the runs that they need, and the program.
#include <map>
#include <set>
#include <sstream>

#include <boost/test/unit_test.hpp>

#include "experiments/support/program/child_process.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/reproduce/needed_runs.h"
#include "experiments/support/reproduce/planned_items.h"
#include "experiments/support/reproduce/rate_search.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/reduced_record.h"
#include "experiments/version.h"
#include "tests/experiments/markup.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

using Texts = std::vector<std::string>;

/// The runs of an item, sorted.
Texts runs_of(NeededRuns& needed, const std::string& item) {
  Texts names = needed.add(chosen_items({item}).front());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reproduction)

BOOST_AUTO_TEST_CASE(every_table_and_figure_has_an_item_that_runs_something_at_every_tier) {
  const std::vector<Item> items = load_items();
  BOOST_TEST(items.size() == 54u);
  std::set<std::string> ids, in_items;
  for (const Item& item : items) {
    BOOST_TEST(ids.insert(item.id).second, item.id);
    if (item.id != "X-reproduce") BOOST_TEST((!item.sheets.empty() || !item.commands.empty()), item.id);
    for (const Sheet& sheet : item.sheets) in_items.insert(sheet.name);
  }
  for (const std::string& sheet : sheet_names()) BOOST_TEST(in_items.contains(sheet), sheet + " is in no item");
  for (const char* tier : {"smoke", "mini", "paper"}) {
    NeededRuns needed(tier, {.out = "out"});
    for (const Item& item : items) {
      needed.add(item);
      for (const ItemCommand& command : item.commands)
        BOOST_TEST(!contains(needed.arguments(command, "out/items/x").back(), "{"), command.text);
    }
    BOOST_TEST(needed.jobs().size() > 80u);
  }
}

BOOST_AUTO_TEST_CASE(rows_with_the_same_flags_are_one_run) {
  NeededRuns needed("smoke", {.out = "out"});
  const Texts nguyen = runs_of(needed, "N-T1"), yang = runs_of(needed, "Y-T3"), fan = runs_of(needed, "F-T3");
  Texts shared, by_all;
  std::set_intersection(nguyen.begin(), nguyen.end(), yang.begin(), yang.end(), std::back_inserter(shared));
  std::set_intersection(shared.begin(), shared.end(), fan.begin(), fan.end(), std::back_inserter(by_all));
  BOOST_TEST(shared.size() == 2u);  // plain attention, and a Gaussian in the first layers
  BOOST_TEST(by_all.size() == 1u);
  NeededRuns mini("mini", {.out = "out"});
  for (const std::string& name : runs_of(mini, "N-T1")) BOOST_TEST(!needed.jobs().contains(name));
  BOOST_TEST(runs_of(mini, "N-T1").size() == 2 * nguyen.size());  // two seeds
}

BOOST_AUTO_TEST_CASE(what_tests_or_continues_a_model_needs_its_run) {
  NeededRuns needed("smoke", {.out = "out"});
  const Texts names = runs_of(needed, "S-T1");
  int tests = 0, continuations = 0;
  for (const std::string& name : names) {
    const RunJob& job = needed.jobs().at(name);
    tests += job.kind == RunJob::Kind::test;
    continuations += job.kind == RunJob::Kind::continuation;
    BOOST_TEST(job.needs.empty() == (job.kind == RunJob::Kind::training));
    if (!job.needs.empty()) BOOST_TEST(std::count(names.begin(), names.end(), job.needs) == 1);
    const std::string model = job.kind == RunJob::Kind::test ? "--model=out/runs/" : "--init=out/runs/";
    const Texts arguments = needed.arguments(name);
    const bool has_model = std::count(arguments.begin(), arguments.end(), model + job.needs) == 1;
    BOOST_TEST(has_model == !job.needs.empty());
  }
  BOOST_TEST(tests == 2);
  BOOST_TEST(continuations == 1);
}

BOOST_AUTO_TEST_CASE(a_run_stands_behind_the_run_that_it_needs) {
  for (const char* tier : {"smoke", "paper"})
    for (const char* item : {"S-T1", "S-grid", "F-T5", "S-F3"}) {
      NeededRuns needed(tier, {.out = "out"});
      const Texts names = needed.add(chosen_items({item}).front());
      std::set<std::string> known;
      for (const std::string& name : names) {
        const RunJob& job = needed.jobs().at(name);
        if (!job.needs.empty()) BOOST_TEST(known.contains(job.needs), job.label);
        known.insert(name);
      }
    }
}

BOOST_AUTO_TEST_CASE(rows_of_single_tiers_are_trained_there_only) {
  NeededRuns smoke("smoke", {.out = "out"}), mini("mini", {.out = "out"});
  runs_of(smoke, "F-T4"), runs_of(mini, "F-T4");
  auto has = [](const NeededRuns& needed, const std::string& label) {
    return std::any_of(needed.jobs().begin(), needed.jobs().end(),
                       [&](const auto& job) { return contains(job.second.label, label); });
  };
  for (const char* row : {"SMAN2", "SMAN2, b = 6"}) BOOST_TEST(has(smoke, row), row);
  BOOST_TEST(has(mini, "SMAN2"));
  BOOST_TEST(!has(mini, "SMAN2, b = 6"));
}

BOOST_AUTO_TEST_CASE(commands_follow_the_tier) {
  auto commands = [](const std::string& tier, const std::string& item) {
    NeededRuns needed(tier, {.out = "out", .data = "/data"});
    Texts lines;
    const std::vector<PlannedItem> items = planned_items(needed, {item});
    for (const Step& step : items.front().steps) lines.push_back(command_line(step.call.words));
    return lines;
  };
  for (const char* item : {"N-F3", "S-F1", "W-3"}) {
    BOOST_TEST(contains(commands("smoke", item).front(), "--sentence crossing"), item);
    BOOST_TEST(contains(commands("mini", item).front(), "--sentence median"), item);
  }
  BOOST_TEST(contains(commands("smoke", "G-mt").front(), "--train 1000 "));
  BOOST_TEST(contains(commands("mini", "G-mt").front(), "--train 20000 "));
  BOOST_TEST(commands("smoke", "S-T3").size() == 3u);  // the first makes the data
  const Texts mini = commands("mini", "S-T3");
  BOOST_TEST(mini.size() == 2u);
  BOOST_TEST(contains(mini.front(), " --decode /data/small_parallel_enja/test.en "), mini.front());
  for (const Item& item : load_items())
    for (const ItemCommand& command : item.commands)
      for (const char* size : {"--updates", "--train ", "--examples", "--rounds", "--batch-tokens"})
        BOOST_TEST((!contains(command.text, size) || !command.tiers.empty()), command.text);
}

BOOST_AUTO_TEST_CASE(public_data_lie_where_the_caller_says_and_do_not_name_the_run) {
  NeededRuns here("mini", {.out = "out", .data = "/data"}), there("mini", {.out = "out", .data = "elsewhere/d"});
  const Texts names = runs_of(here, "N-T6");
  BOOST_TEST(names == runs_of(there, "N-T6"), boost::test_tools::per_element());
  BOOST_TEST(here.needs_data());
  const Texts first = here.arguments(names.front()), second = there.arguments(names.front());
  BOOST_TEST(std::count(first.begin(), first.end(), "--data=/data/lm1b_sample") == 1);
  BOOST_TEST(std::count(second.begin(), second.end(), "--data=elsewhere/d/lm1b_sample") == 1);
  Folder folder;
  const Ended refused = ended("reproduce", {"N-T6", "--tier", "mini", "--data", (folder / "no").string(), "--records",
                                            (folder / "none").string(), "--out", (folder / "out").string()});
  BOOST_TEST(refused.status == 2);
  BOOST_TEST(contains(refused.err, "/no: there is no such directory; the tier 'mini' trains on public data sets"),
             refused.err);
}

BOOST_AUTO_TEST_CASE(a_training_that_failed_is_a_problem_of_its_items) {
  Folder folder;
  NeededRuns needed("smoke", {.out = folder.path});
  for (const std::string& name : runs_of(needed, "W-5")) {
    std::filesystem::create_directories(needed.directory(name));
    save_result({.row = "a", .directory = needed.directory(name), .failure = "training diverged at update 3"});
  }
  const Ended failed = ended("reproduce", {"W-5", "--out", folder.path.string()});
  BOOST_TEST(failed.status == 2);
  BOOST_TEST(contains(failed.out, "0 of 1 items are done"), failed.out);
  BOOST_TEST(contains(contents(folder / "report.md"), "failed: training diverged at update 3"));
}

BOOST_AUTO_TEST_CASE(a_reduced_record_takes_the_place_of_a_run_but_not_of_its_model) {
  Folder folder;
  const std::filesystem::path records = folder / "records";
  NeededRuns needed("smoke", {.out = folder / "out", .records = records});
  const Texts names = runs_of(needed, "N-T6");
  RunResult run{.row = "a", .directory = needed.directory(names.front())};
  run.configuration = {{"program", "language_model"}, {"data", "generated"}};
  run.tests = {{.examples = {{.reference = "a b", .likelihood = {.negative_log = 3, .tokens = 3, .words = 3}}},
                .metrics = {"perplexity"}}};
  std::filesystem::create_directories(run.directory);
  save_result(run);
  save_reduced(run, "/data", records / names.front());
  std::filesystem::remove_all(folder / "out");
  BOOST_TEST(needed.is_finished(names.front()));
  BOOST_TEST(!needed.has_model(names.front()));
  BOOST_TEST(!needed.is_finished(names.back()));
  BOOST_TEST(needed.finished(load_sheet("nguyen-table-6")).size() == 1u);
}

BOOST_AUTO_TEST_CASE(the_output_of_a_command_is_kept_with_the_records) {
  Folder folder;
  const std::filesystem::path records = folder / "records", out = folder / "out";
  NeededRuns needed("mini", {.out = out, .records = records});
  for (const std::string& name : runs_of(needed, "Y-F2")) {
    RunResult run{.row = "a", .directory = needed.directory(name)};
    run.configuration = {{"program", "translate"}};
    std::filesystem::create_directories(run.directory);
    save_result(run);
    std::ofstream(run.directory / "best.safetensors") << "a model";
    save_reduced(run, "/data", records / name);
  }
  const std::vector<PlannedItem> made = planned_items(needed, {"Y-F2", "N-F1"});
  const PlannedItem& item = made.back();
  BOOST_TEST_REQUIRE(item.steps.size() == 1u);
  BOOST_TEST(!output_of(needed, item, item.steps.front()).has_value());
  const std::filesystem::path status = item.directory / "1.json";
  std::filesystem::create_directories(item.directory);
  std::string lines;
  for (int k = 1; k <= 60; ++k) lines += fmt::format("line {}\n", k);
  std::ofstream(item.directory / "1.txt")
      << fmt::format("{}/runs/a written\nwidths: 3.25\n{}\nRuns made 2026 on a machine\nPrinted 2026 on a machine\n",
                     out.string(), lines);
  std::ofstream(item.directory / "widths.svg")
      << "<svg>\n<desc>Runs made on a machine\nPrinted on a\nmachine</desc>12.5</svg>";
  std::ofstream(item.directory / "other.svg") << "<svg>a text of the data</svg>";  // not of this command
  save_json(status, {{"command", command_line(item.steps.front().call.words)},
                     {"status", 0},
                     {"commit", commit_text},
                     {"start", {{"started", "2026-11-23T10:00:00Z"}, {"version", "7.5"}, {"commit", "abc"}}}});
  BOOST_TEST(contains(output_of(needed, item, item.steps.front())->command, out.string()));
  BOOST_TEST(keep_outputs(needed, made, records) == 1u);

  std::filesystem::remove_all(out);
  const std::vector<PlannedItem> items = planned_items(needed, {"Y-F2"});
  const std::optional<StepOutput> kept = output_of(needed, items.front(), items.front().steps.front());
  BOOST_TEST_REQUIRE(kept.has_value());
  BOOST_TEST(contains(kept->command, "analyze widths {yang-table-1/Head-Spec.}"), kept->command);
  BOOST_TEST(kept->is_kept);
  BOOST_TEST(contains(kept->origin, "2026-11-23 with fovea 7.5 (abc)"), kept->origin);
  Finding section;
  add_outputs(section, needed, items.front(), records);
  BOOST_TEST_REQUIRE(section.outputs.size() == 1u);
  BOOST_TEST(contains(section.outputs.front(), "{out}/runs/a written\nwidths: 3.25\n"), section.outputs.front());
  BOOST_TEST(!contains(section.outputs.front(), "a machine"), section.outputs.front());
  BOOST_TEST(contains(section.outputs.front(), "\nline 8\n... ("), section.outputs.front());
  BOOST_TEST(!contains(section.outputs.front(), "\nline 9\n"), section.outputs.front());
  BOOST_TEST(contains(section.outputs.front(), "\nline 59\nline 60\n"), section.outputs.front());
  BOOST_TEST_REQUIRE(section.figures.size() == 1u);
  const auto& picture = std::get<Picture>(section.figures.front());
  BOOST_TEST(picture.file == "items/Y-F2/widths.svg");
  BOOST_TEST(picture.svg == "<svg>12.5</svg>");
  section.figures = {Picture{"<svg/>", "items/a [b] (c%20).svg"}};
  const std::string markdown = contents_of(section, Format::markdown);
  BOOST_TEST(contains(markdown, "![items/a \\[b\\] (c%20).svg](items/a%20[b]%20%28c%2520%29.svg)"), markdown);

  for (const char* part : {"tier", "command", "runs"}) {
    Step changed = items.front().steps.front();
    changed.identity[part] = "another";
    BOOST_TEST(!output_of(needed, items.front(), changed).has_value(), part);
  }
  // A command that failed in this directory must not seem to have worked because an older output is kept.
  Step failed = items.front().steps.front();
  failed.has_inputs = true;
  std::filesystem::create_directories(items.front().directory);
  BOOST_TEST(output_of(needed, items.front(), failed).has_value());
  save_json(status, {{"command", command_line(failed.call.words)}, {"status", 2}, {"commit", commit_text}});
  BOOST_TEST(!output_of(needed, items.front(), failed).has_value());
  std::filesystem::remove(records / "items" / "Y-F2" / "1.txt");
  BOOST_TEST(contains(message_of([&] { output_of(needed, items.front(), items.front().steps.front()); }),
                      "1.txt: the file is missing"));
}

BOOST_AUTO_TEST_CASE(results_are_written_from_the_records_and_replace_no_other_file) {
  Folder folder;
  const std::filesystem::path records = folder / "records";
  const std::string page = (folder / "page.md").string();
  auto write = [&](const std::string& file) {
    return ended("reproduce", {"N-T6", "N-T5", "N-F3", "X-length", "--tier", "mini", "--records", records.string(),
                               "--out", (folder / "out").string(), "--results", file});
  };
  const Ended none = write(page);
  BOOST_TEST(none.status == 2);
  BOOST_TEST(contains(none.err, "there is no finished run for a table of the tier 'mini' in"), none.err);
  NeededRuns needed("mini", {.out = folder / "made", .records = records});
  std::string one_record;
  const auto make_records = [&](double nats_of_plain) {
    std::filesystem::remove_all(records);
    for (const std::string& name : runs_of(needed, "N-T6")) {
      const std::string& row = needed.jobs().at(name).label;
      if (contains(row, "Dec(AW)")) continue;
      RunResult run{.row = "a", .directory = needed.directory(name)};
      run.configuration = {{"program", "language_model"}, {"data", "generated"}};
      TestResult& test = run.tests.emplace_back(TestResult{.metrics = {"perplexity"}});
      for (int i = 0; i < 50; ++i)
        test.examples.push_back(
            {.reference = "a b",
             .likelihood = {
                 .negative_log = i % 7 + (contains(row, "Dec(MW)") ? 5.0 : nats_of_plain), .tokens = 3, .words = 3}});
      std::filesystem::create_directories(run.directory);
      save_result(run);
      save_reduced(run, "/data", records / name);
      one_record = (records / name / "result.json").string();
    }
  };
  make_records(9);
  BOOST_TEST_REQUIRE(write(page).status == 0);
  BOOST_TEST(write(page).status == 0);  // its own page is replaced
  const std::string text = contents(page);
  for (const char* part : {"# The papers' statements, measured: tier mini\n", "## Nguyen et al. 2020\n",
                           "\n| perplexity of 'Dec(MW)' is below that of 'Vaswani' | table 6 | given          | ",
                           " -2.37 |",  // 44.00 - 46.37
                           "\n| Nguyen et al. 2020, table 6 | Multiplicative windows lower the perplexity of a ",
                           " | holds   |\n", "\nNot in the table: 5 statements are not measured.\n",
                           "\n| nguyen-table-6 | a sample of the 1 Billion Word Benchmark |    8 |     1 | 4 of 5 ",
                           "\n| nguyen-table-5 | –", " | 0 of 15 "})
    BOOST_TEST(contains(text, part), part << " is not in\n" << text);
  BOOST_TEST(!contains(text, folder.path.string()));
  BOOST_TEST(!contains(text, "analyze"));  // of commands only what they have printed
  const std::string own = (folder / "own.md").string();
  std::ofstream(own) << "# Results\n";
  const Ended refused = write(own);
  BOOST_TEST(refused.status == 2);
  BOOST_TEST(contains(refused.err, "own.md: the file exists and was not written by this command"), refused.err);
  BOOST_TEST(contents(own) == "# Results\n");
  for (const auto& [file, said] : {std::pair(folder.path.string(), "this is a directory; name a file"),
                                   std::pair((folder / "none" / "page.md").string(), "there is no directory"),
                                   std::pair(std::string("-"), "the page is written into a file; name one")}) {
    const Ended nowhere = write(file);
    BOOST_TEST(nowhere.status == 2);
    BOOST_TEST(contains(nowhere.err, said), nowhere.err);
  }
  std::ofstream(one_record, std::ios::app) << "x";
  const Ended damaged = write(page);
  BOOST_TEST(damaged.status == 2);
  BOOST_TEST(contains(damaged.err, one_record), damaged.err);
  BOOST_TEST(contents(page) == text);
  make_records(19);  // a perplexity of exp(22 / 3)
  BOOST_TEST_REQUIRE(write(page).status == 0);
  const std::string untrained = contents(page);
  BOOST_TEST(contains(untrained, "| cannot tell: the first row is not trained enough to judge by |"), untrained);
  BOOST_TEST(contains(untrained, ": cannot tell; the first row is not trained enough to judge by |"), untrained);
  BOOST_TEST(!contains(untrained, "| holds"), untrained);
}

BOOST_AUTO_TEST_CASE(a_search_chooses_the_learning_rate_of_each_row_on_the_development_set) {
  Folder folder;
  NeededRuns needed("mini", {.out = folder.path});
  const Item item = chosen_items({"N-T6"}).front();
  const Sheet& sheet = item.sheets.front();
  const Texts trials = needed.add_search(item);
  BOOST_TEST(trials.size() == 3 * sheet.rows.size());
  // For the row "Vaswani" the rate 2e-3 has the lowest perplexity, for "Shaw" the rate of the recipe, for "Yang" 8e-3.
  // The two rows "Dec" diverge with 8e-3, and the rate of the recipe is the better of the other two.
  std::size_t with_rate = 0;
  for (const std::string& name : trials) {
    const RunJob& job = needed.jobs().at(name);
    const Texts arguments = needed.arguments(name);
    BOOST_TEST(job.is_trial);
    BOOST_TEST(std::count(arguments.begin(), arguments.end(), "--updates=200") == 1);
    const bool is_low = contains(job.label, "rate 2e-3"), is_high = contains(job.label, "rate 8e-3");
    with_rate += std::count(arguments.begin(), arguments.end(), is_low ? "--rate=2e-3" : "--rate=8e-3") == 1;
    RunResult run{.row = "a", .directory = needed.directory(name)};
    const bool is_first = contains(job.label, "Vaswani"), fails = is_high && contains(job.label, "Dec");
    const double perplexity = is_high ? 90.25 : is_low == is_first ? 93.5 : 99;
    run.training = {.score_name = "perplexity", .best_score = is_first && is_high ? 110 : perplexity};
    run.training->higher_is_better = false;
    if (contains(job.label, "Shaw")) run.training->best_score = is_low || is_high ? 120 : 100;
    if (fails) run.failure = "training diverged";
    std::filesystem::create_directories(run.directory);
    save_result(run);
  }
  BOOST_TEST(with_rate == 2 * sheet.rows.size());
  NeededRuns again("mini", {.out = folder.path});
  const Texts given = again.add(item), all = again.add_search(item);
  const auto chosen = [&](const std::string& row) {
    return again.search(sheet, sheet.row(row), sheet.tasks.front()).value().chosen;
  };
  BOOST_TEST(chosen("Vaswani") == "2e-3");
  BOOST_TEST(chosen("Shaw") == "");
  BOOST_TEST(chosen("Dec(MW)") == "");
  BOOST_TEST(chosen("Yang") == "8e-3");
  const std::vector<Finding::NamedTable> tables = search_tables(again, sheet);
  BOOST_TEST_REQUIRE(tables.size() == 1u);
  const std::string table = tables.front().table.csv();
  BOOST_TEST(table.starts_with("model,the given rate,2e-3,8e-3\n"), table);
  BOOST_TEST(contains(table, "\nShaw,100,120,120\n"), table);
  BOOST_TEST(contains(tables.front().caption, "The best perplexity on the development set"), tables.front().caption);
  // The runs of the chosen rates: two seeds each, and those of the recipe's rate are no others.
  const auto more = std::count_if(all.begin(), all.end(), [&](const std::string& name) {
    return !again.jobs().at(name).is_trial && std::count(given.begin(), given.end(), name) == 0;
  });
  BOOST_TEST(more == 4);
  const auto shared = std::count_if(all.begin(), all.end(), [&](const std::string& name) {
    return std::count(given.begin(), given.end(), name) > 0;
  });
  BOOST_TEST(shared == 2 * static_cast<std::int64_t>(sheet.rows.size()) - more);
  BOOST_TEST((needed.most_after_search().first == 2 * std::ssize(sheet.rows)));
  BOOST_TEST((again.most_after_search().first == 0));
  // A page has the searched rows when all of them are trained, or have failed.
  BOOST_TEST(!again.is_searched(sheet));
  for (const std::string& name : all)
    if (!again.is_finished(name)) {
      BOOST_TEST(!again.is_searched(sheet));
      std::filesystem::create_directories(again.directory(name));
      save_result({.row = "a", .directory = again.directory(name), .failure = "training diverged"});
    }
  BOOST_TEST(again.is_searched(sheet));
}

BOOST_AUTO_TEST_CASE(a_search_whose_trials_all_failed_keeps_the_given_rate_and_says_so) {
  Folder folder;
  NeededRuns needed("mini", {.out = folder.path});
  const Item item = chosen_items({"N-T6"}).front();
  const Sheet& sheet = item.sheets.front();
  for (const std::string& name : needed.add_search(item)) {
    std::filesystem::create_directories(needed.directory(name));
    save_result({.row = "a", .directory = needed.directory(name), .failure = "training diverged"});
  }
  NeededRuns again("mini", {.out = folder.path});
  const std::optional<NeededRuns::Search> search = again.search(sheet, sheet.row("Shaw"), sheet.tasks.front());
  BOOST_TEST_REQUIRE(search.has_value());
  BOOST_TEST(search->chosen == "");
  const std::vector<Finding::NamedTable> tables = search_tables(again, sheet);
  BOOST_TEST(contains(tables.at(0).table.csv(), "\nShaw,failed,failed,failed\n"), tables.at(0).table.csv());
  BOOST_TEST(contains(tables.at(0).caption, "The best score on the development set"), tables.at(0).caption);
}

BOOST_AUTO_TEST_CASE(runs_of_other_sheets_that_are_trained_alike_are_in_the_spread) {
  Folder folder;
  NeededRuns needed("mini", {.out = folder.path});
  const Item item = chosen_items({"N-T1"}).front(), other = chosen_items({"F-T3"}).front();
  const auto made = [&](const Item& of) {
    for (const std::string& name : needed.add(of)) {
      std::filesystem::create_directories(needed.directory(name));
      save_result({.row = "a", .directory = needed.directory(name)});
    }
  };
  const auto rows_alike = [&] {
    NeededRuns fresh("mini", {.out = folder.path});
    return fresh.finished(item.sheets.front()).alike.at("En-De")->rows.size();
  };
  made(item);
  const std::size_t alone = rows_alike();
  BOOST_TEST(alone == item.sheets.front().rows.size());
  made(other);
  BOOST_TEST(rows_alike() > alone);
}

BOOST_AUTO_TEST_CASE(every_record_of_the_project_belongs_to_an_item) {
  Folder folder;
  NeededRuns needed("mini", {.out = folder.path, .records = records_directory()});
  std::set<std::string> known{"columns", "items"};
  for (const Item& item : load_items())
    for (const Texts& names : {needed.add(item), needed.add_search(item)}) known.insert(names.begin(), names.end());
  for (const auto& entry : std::filesystem::directory_iterator(records_directory()))
    BOOST_TEST(known.contains(entry.path().filename().string()), entry.path() << " is not read by anything");
}

BOOST_AUTO_TEST_CASE(the_first_table_of_the_page_has_given_and_searched_rates_side_by_side) {
  Folder folder;
  const std::string page = (folder / "page.md").string();
  const Ended written = ended("reproduce", {"F-T2", "--tier", "mini", "--records", records_directory().string(),
                                            "--out", (folder / "out").string(), "--results", page});
  BOOST_TEST_REQUIRE(written.status == 0, written.err);
  std::vector<std::string> main;
  std::map<std::string, std::string> difference;  // by "given" and "searched"
  std::istringstream text(contents(page));
  for (std::string line; std::getline(text, line);) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(trimmed(cell));
    if (line.starts_with("| Fan et al. 2021, table 2")) main = cells;
    if (line.starts_with("| CNN/DM R-1 of 'Ours'")) difference[cells.at(3)] = cells.at(6);
  }
  BOOST_TEST_REQUIRE(main.size() == 6u);
  BOOST_TEST_REQUIRE((difference.contains("given") && difference.contains("searched")));
  BOOST_TEST(difference["given"] != difference["searched"]);
  BOOST_TEST(main[4].starts_with(difference["given"] + ": "), main[4]);
  BOOST_TEST(main[5].starts_with(difference["searched"] + ": "), main[5]);
}

BOOST_AUTO_TEST_CASE(flags_that_exclude_each_other_are_refused) {
  const Ended two = ended("reproduce", {"--tier", "mini", "--list", "--results", "page.md"});
  BOOST_TEST(two.status == 2);
  BOOST_TEST(contains(two.err, "--list or --results: give one of them at a time"), two.err);
  const Ended search = ended("reproduce", {"--search", "--list"});
  BOOST_TEST(search.status == 2);
  BOOST_TEST(contains(search.err, "--search: only with --tier mini"), search.err);
}

BOOST_AUTO_TEST_CASE(two_calls_do_not_share_a_directory) {
  Folder folder;
  const RunDirectory lock = RunDirectory::resume(folder.path);
  const Ended second = ended("reproduce", {"N-F1", "--out", folder.path.string()});
  BOOST_TEST(second.status == 2);
  BOOST_TEST(contains(second.err, "another process is running in this directory"), second.err);
}

BOOST_AUTO_TEST_CASE(words_are_quoted_for_a_shell_only_where_that_is_needed) {
  for (const char* plain : {"a", "--x=1,2", "a/b.c", "τ"}) BOOST_TEST(quoted_for_shell(plain) == plain);
  BOOST_TEST(quoted_for_shell("window(use=additive)") == "'window(use=additive)'");
  BOOST_TEST(quoted_for_shell("") == "''");
  BOOST_TEST(quoted_for_shell("it's") == "'it'\\''s'");
}

BOOST_AUTO_TEST_CASE(a_run_that_was_stopped_is_resumed) {
  Folder folder;
  NeededRuns needed("smoke", {.out = folder.path});
  const std::string name = runs_of(needed, "N-T6").front();
  BOOST_TEST(!contains(needed.arguments(name).front(), "--resume"));
  std::filesystem::create_directories(needed.directory(name));
  std::ofstream(needed.directory(name) / "config.json") << "{}";
  BOOST_TEST(needed.arguments(name).front() == "--resume=" + needed.directory(name).string());
  BOOST_TEST(!needed.is_finished(name));
}

BOOST_AUTO_TEST_CASE(quotes_and_braces_keep_words_together) {
  BOOST_TEST(
      words_of_command("a --b 'c \"d\"'  \"e\"f {s/x y} ''") == (Texts{"a", "--b", "c \"d\"", "ef", "{s/x y}", ""}),
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_item_is_made_once_and_its_report_has_its_figures) {
  Folder folder;
  const std::string out = (folder / "out").string();
  const Ended first = ended("reproduce", {"N-F1", "S-F2", "--out", out});
  BOOST_TEST_REQUIRE(first.status == 0, first.err);
  BOOST_TEST(contains(first.out, "2 of 2 items are done"), first.out);
  const std::string page = contents(folder / "out" / "report.html"), text = contents(folder / "out" / "report.md");
  BOOST_TEST(markup_error(page) == "");
  BOOST_TEST(count(page, "<figure>") == 2u);
  for (const char* part : {"## N-F1: ", "analyze window-demo --left 2", "](items/N-F1/window.svg)"})
    BOOST_TEST(contains(text, part), part);
  const auto made = std::filesystem::last_write_time(folder / "out" / "items" / "N-F1" / "1.txt");
  BOOST_TEST(ended("reproduce", {"N-F1", "--out", out}).status == 0);
  BOOST_TEST((std::filesystem::last_write_time(folder / "out" / "items" / "N-F1" / "1.txt") == made));
  // What fails is named, and tried again.
  std::ofstream(folder / "out" / "items" / "S-F2" / "1.json") << "{\"command\": \"another\", \"status\": 0}";
  BOOST_TEST(contains(ended("reproduce", {"S-F2", "--list", "--out", out}).out, "0 of 1"));
  const Ended unknown = ended("reproduce", {"N-T11"});
  BOOST_TEST(unknown.status == 2);
  BOOST_TEST(contains(unknown.err, "there is no item 'N-T11'; did you mean 'N-T1'?"), unknown.err);
}

BOOST_AUTO_TEST_CASE(an_item_whose_program_fails_is_not_done) {
  Folder folder;
  int failed = 0;
  std::vector<Call> calls{{"bad", {"score", "--nonsense"}, folder / "bad.txt"},
                          {"good", {"score", "--list"}, folder / "good.txt"}};
  std::size_t next = 0;
  run_calls(
      2, [&]() -> const Call* { return next < calls.size() ? &calls[next++] : nullptr; },
      [&](const Call& call, int status) { failed += call.name == "bad" ? status : 10 * status; });
  // The programs lie beside the one that calls them; the test lies elsewhere, so that both are missing.
  BOOST_TEST(failed == 11 * 127);
  BOOST_TEST(contains(contents(folder / "bad.txt"), "cannot be run: build it"));
}

BOOST_AUTO_TEST_SUITE_END()
