// The items of `reproduce`, the runs that they need, and the program.
#include <set>

#include <boost/test/unit_test.hpp>

#include "experiments/support/reproduce/boxes.h"
#include "experiments/support/reproduce/child_process.h"
#include "tests/experiments/markup.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

using Texts = std::vector<std::string>;

Texts runs_of(NeededRuns& needed, const std::string& item) { return needed.add(chosen_boxes({item}).front()); }

}  // namespace

BOOST_AUTO_TEST_SUITE(reproduction)

BOOST_AUTO_TEST_CASE(every_table_and_figure_has_an_item_that_runs_something_at_every_tier) {
  const std::vector<Box> boxes = load_boxes();
  BOOST_TEST(boxes.size() == 54u);
  std::set<std::string> ids, in_items;
  for (const Box& box : boxes) {
    BOOST_TEST(ids.insert(box.id).second, box.id);
    if (box.id != "X-reproduce") BOOST_TEST((!box.sheets.empty() || !box.commands.empty()), box.id);
    for (const Sheet& sheet : box.sheets) in_items.insert(sheet.name);
  }
  for (const std::string& sheet : sheet_names()) BOOST_TEST(in_items.contains(sheet), sheet + " is in no item");
  for (const char* tier : {"smoke", "mini", "paper"}) {
    NeededRuns needed(tier, {.out = "out"});
    for (const Box& box : boxes) {
      needed.add(box);
      for (const BoxCommand& command : box.commands)
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
  BOOST_TEST(runs_of(mini, "N-T1").size() == 3 * nguyen.size());  // three seeds
}

BOOST_AUTO_TEST_CASE(what_tests_or_continues_a_model_needs_its_run) {
  NeededRuns needed("smoke", "out");
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

BOOST_AUTO_TEST_CASE(a_run_that_was_stopped_is_resumed) {
  Folder folder;
  NeededRuns needed("smoke", folder.path);
  const std::string name = runs_of(needed, "N-T6").front();
  BOOST_TEST(contains(needed.arguments(name).front(), "--data=generated"));
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
  for (const char* part : {"## N-F1: ", "analyze window-demo --left 2", "![window](items/N-F1/window.svg)"})
    BOOST_TEST(contains(text, part), part);
  const auto made = std::filesystem::last_write_time(folder / "out" / "items" / "N-F1" / "1.txt");
  BOOST_TEST(ended("reproduce", {"N-F1", "--out", out}).status == 0);
  BOOST_TEST((std::filesystem::last_write_time(folder / "out" / "items" / "N-F1" / "1.txt") == made));
  // What fails is named, and tried again.
  std::ofstream(folder / "out" / "items" / "S-F2" / "1.json") << "{\"command\": \"another\", \"status\": 0}";
  BOOST_TEST(contains(ended("reproduce", {"S-F2", "--list", "--out", out}).out, "1 of 2"));
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
