// Sheets, and reports of runs.
#include <cmath>
#include <set>

#include <boost/test/unit_test.hpp>

#include "experiments/support/program/files.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/report/sheet.h"
#include "experiments/support/text/words.h"
#include "tests/experiments/markup.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

/// A finished run that was made for a row ("nguyen-table-6: Vaswani"; empty: for none), with a test set whose answers
/// are right where `right` has a 1.
RunResult run_for(const std::string& row, const std::string& right = "1101", const std::string& metric = "bleu") {
  RunResult run{.row = "row", .seed = 1, .parameters = 60'900'000};
  run.configuration = {{"program", "translate"}, {"data", "generated:train=9"}, {"attention", ""}};
  if (!row.empty()) run.made_for = {row};
  TestResult test{.metrics = {metric}};
  for (char one : right)
    test.examples.push_back({.reference = "a b c d e", .hypothesis = one == '1' ? "a b c d e" : "a b d c f"});
  run.tests = {test};
  return run;
}

RunResult with(RunResult run, const Json& options, std::uint64_t seed = 1) {
  if (options.is_object()) run.configuration.update(options);
  run.seed = seed;
  return run;
}

/// The run with a training of 1000 updates that ended with a best score and a gain in its last fifth.
RunResult trained(RunResult run, double best, double last_gain, bool higher_is_better = true) {
  const std::string score = higher_is_better ? "BLEU" : "perplexity";
  run.training = {.updates = 1000, .score_name = score, .best_score = best, .higher_is_better = higher_is_better};
  const double before = higher_is_better ? best - last_gain : best + last_gain;
  for (const auto& [update, value] : {std::pair(400, 3.5), {800, before}, {900, 7.25}, {1000, best}})
    run.log.push_back({{"update", update}, {"dev", {{score, value}}}});
  run.log.push_back({{"update", 1000}, {"loss", 1.5}});
  return run;
}

std::vector<std::string> csv_lines(const Table& table) {
  std::istringstream stream(table.csv());
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sheets)

BOOST_AUTO_TEST_CASE(every_row_of_every_sheet_has_flags_of_its_own_at_every_tier_and_every_claim_can_be_checked) {
  BOOST_TEST(sheet_names().size() >= 25u);
  for (const std::string& name : sheet_names()) {
    const Sheet sheet = load_sheet(name);
    std::set<std::string> names;
    for (const Sheet::Row& row : sheet.rows) BOOST_TEST(names.insert(row.name).second, name + ": two rows " + row.name);
    for (const Sheet::Task& task : sheet.tasks)
      for (const auto& [tier, ignored] : sheet.recipe(task).tiers) {
        std::set<std::string> rows;
        for (const Sheet::Row& row : sheet.rows) {
          if (row.is_cited) continue;
          const FlagValues flags = row_flags(sheet, row, task, tier);
          BOOST_TEST(!flags.empty());
          if (sheet.is_trained(row, task, tier))
            BOOST_TEST(rows.insert(row.model + row.initial + row.part + flags_text(flags)).second,
                       fmt::format("{} {}: {}", name, tier, row.name));
        }
      }
    BOOST_TEST(check_claims(sheet, {}).size() == sheet.claims.size());
  }
  BOOST_TEST(contains(message_of([] { load_sheet("nguyen-table-9"); }), "did you mean 'nguyen-table-"));
}

BOOST_AUTO_TEST_CASE(a_run_belongs_to_the_rows_that_it_was_made_for_and_to_no_other) {
  const Sheet sheet = load_sheet("nguyen-table-1"), other_sheet = load_sheet("yang-table-3");
  const std::string plain = "nguyen-table-1, En-De: Vaswani", shaw = "nguyen-table-1, En-De: Shaw";
  RunResult shared = run_for(plain);
  shared.made_for.push_back("yang-table-3: none");
  const std::vector<RunResult> runs{shared,
                                    run_for(""),                                          // the same flags alone
                                    with(shared, {}, 2),                                  // another seed
                                    with(shared, {}, 2),                                  // the same once more
                                    with(shared, {{"schedule", "constant(rate=1)"}}, 3),  // another training
                                    run_for(shaw, "11"),                                  // of other test examples
                                    run_for("nguyen-table-1, En-Fr: Shaw", "11"),
                                    run_for("nguyen-table-2: Transformer", "11")};
  RunResult kept = with(shared, {{"optimizer", "adamw"}}, 5), first = shared;
  kept.name = "translate-1f", first.name = "translate-2e";
  const std::vector<RunResult> of_two_versions{first, kept};
  BOOST_TEST(runs_of(sheet, of_two_versions).at({"Vaswani", "En-De"}).size() == 2u);
  const SheetRuns of_sheet = runs_of(sheet, runs);
  BOOST_TEST(of_sheet.size() == 2u);
  BOOST_TEST((of_sheet.at({"Vaswani", "En-De"}) == SeedRuns{&runs[0], &runs[2]}));
  BOOST_TEST((of_sheet.at({"Shaw", "En-Fr"}) == SeedRuns{&runs[6]}));
  BOOST_TEST((runs_of(other_sheet, runs).at({"none", other_sheet.tasks.front().name}) == SeedRuns{&runs[0], &runs[2]}));
  for (const char* wrong : {"nguyen-table-1, En-De: Vaswan", "nguyen-table-1: Vaswani"}) {
    const std::string message = message_of([&] { runs_of(sheet, {run_for(wrong)}); });
    BOOST_TEST(contains(message, fmt::format("was made for '{}', which is no row of the sheet; did you mean '", wrong)),
               message);
  }
}

BOOST_AUTO_TEST_CASE(a_program_records_the_rows_that_its_runs_are_made_for) {
  Folder folder;
  const std::string out = (folder / "runs").string();
  const std::vector<std::string> flags{"--made-for", "nguyen-table-6: Vaswani; nguyen-table-6: Dec(MW)"};
  const auto made = [&](const std::vector<std::string>& more) {
    succeeded(ended("language_model", tiny(out, joined(more, {"--data", "generated:train=60,dev=10,test=12"}))));
    return load_result(out).value();
  };
  BOOST_TEST(made(flags).made_for == (std::vector<std::string>{"nguyen-table-6: Vaswani", "nguyen-table-6: Dec(MW)"}),
             boost::test_tools::per_element());
  const auto parameters = file_checksum(out + "/best.safetensors");
  const Ended table = ended("report", {out, "--sheet", "nguyen-table-6", "--format", "csv"});
  for (const char* row : {",Vaswani,46.37,", ",Dec(MW),44,", ",Shaw,46.13,"}) {
    BOOST_TEST(contains(table.out, row), table.out << table.err);
    BOOST_TEST(contains(table.out, std::string(row) + ",") == contains(row, "Shaw"), table.out);  // without a number
  }
  std::filesystem::remove_all(out);
  BOOST_TEST(made({}).made_for.empty());
  BOOST_TEST(file_checksum(out + "/best.safetensors") == parameters);    // the name changes no result
  succeeded(ended("language_model", joined({"--resume", out}, flags)));  // nor the configuration
}

BOOST_AUTO_TEST_CASE(our_numbers_have_the_papers_scale_and_say_which_data_they_are_of) {
  const Sheet sheet = load_sheet("fan-table-2");
  const std::string row = "fan-table-2, CNN/DM: Transformer";
  const std::vector<RunResult> runs{with(run_for(row, "1111", "rouge"), {{"data", "/data/captions"}})};
  const SheetRuns of_sheet = runs_of(sheet, runs);
  const std::vector<std::string> lines = csv_lines(sheet_table(sheet, of_sheet));
  BOOST_TEST(lines.at(0).starts_with(
                 "model,\"CNN/DM R-1, paper\",\"CNN/DM R-1, ours (data/captions)\",CNN/DM p,CNN/DM difference,"),
             lines[0]);
  BOOST_TEST(lines.at(1).starts_with("Transformer,39.5,100,"), lines[1]);
  BOOST_TEST(lines.at(4).starts_with("PTGEN + Cov (cited),39.53,,"), lines[4]);
  const std::string caption = sheet_caption(sheet, of_sheet);
  BOOST_TEST(contains(caption, " Data of CNN/DM: data/captions here, CNN/Daily Mail in the paper."), caption);
  BOOST_TEST(contains(caption, " p: against 'Transformer'"), caption);
  const std::vector<RunResult> same{run_for(row, "1111", "ribes")};
  const std::string without = sheet_caption(sheet, runs_of(sheet, same));
  BOOST_TEST(!contains(without, " p: "), without);
  BOOST_TEST(contains(without, " None of our runs has CNN/DM R-1, CNN/DM R-2, CNN/DM R-L or "), without);
  BOOST_TEST(std::abs(measured(runs[0], "mean: ROUGE-1 F1, ROUGE-2 F1") - 1) < 1e-12);
  BOOST_TEST(std::isnan(measured(runs[0], "BLEU")));
  // A metric that the run does not have is never replaced by one with a similar name.
  const Sheet yang = load_sheet("yang-table-1");
  const std::vector<RunResult> bleu{run_for("yang-table-1: Baseline")};
  BOOST_TEST(!contains(csv_lines(sheet_table(yang, runs_of(yang, bleu))).at(0), "BLEU, ours"));
}

BOOST_AUTO_TEST_CASE(the_hard_subset_is_a_column_and_what_its_own_test_gives) {
  Folder folder;
  const std::string data = (folder / "data").string(), all = (folder / "all").string(),
                    hard = (folder / "hard").string();
  succeeded(ended("generate", {"sva", "--out", data, "--train", "54", "--dev", "6", "--test", "540"}));
  for (const auto& [out, flags] : {std::pair(all, std::vector<std::string>{}), {hard, {"--hard-subset"}}})
    succeeded(ended("agreement", joined(tiny_classifier(out, flags),
                                        {"--data", data, "--made-for", "nguyen-table-5, SVA: Vaswani"})));
  const Json whole = load_json(all + "/result.json"), subset = load_json(hard + "/result.json");
  double found = -1;
  for (const Json& one : whole.at("tests").at("test").at("measurements"))
    if (one.at("name") == "hard subset") found = one.at("value");
  BOOST_TEST(std::abs(found - subset.at("tests").at("test").at("scores").at("accuracy %").get<double>()) < 1e-9);
  const Ended table = ended("report", {all, "--sheet", "nguyen-table-5", "--format", "csv"});
  BOOST_TEST(contains(table.out, "SVA on the hard subset, ours ("), table.out << table.err);
}

BOOST_AUTO_TEST_CASE(rows_that_read_parts_of_a_model_share_its_runs) {
  const Sheet sheet = load_sheet("fan-table-5");
  RunResult run = run_for("fan-table-5: C5");
  run.made_for.insert(run.made_for.end(), {"fan-table-5: DMAN", "fan-table-5: SAN"});
  for (int layer = 0; layer < 3; ++layer)
    for (const char* part : {"attention", "attention_2"})
      for (int distance : {1, 2, 4, 1000})
        run.tests[0].attention_within[fmt::format("encoder.{}.{}", layer, part)][distance] =
            distance == 1000 ? 100 : 10 * layer + distance + (part == std::string("attention") ? 50 : 0);
  const SheetRuns of_sheet{{{"C5", "IWSLT"}, {&run}}, {{"DMAN", "IWSLT"}, {&run}}, {{"SAN", "IWSLT"}, {&run}}};
  BOOST_TEST(runs_of(sheet, {run}).size() == 3u);
  const std::vector<std::string> lines = csv_lines(sheet_table(sheet, of_sheet));
  BOOST_TEST(lines.at(1).starts_with("DMAN,76.58,51,86.17,52,95.09,54,60.43,51,"), lines[1]);  // C5 has no numbers
  BOOST_TEST(lines.at(2).starts_with("SAN,12.8,1,18.73,2,30.38,4,40.39,1,"), lines[2]);
  for (const CheckedClaim& one : check_claims(sheet, of_sheet))
    BOOST_TEST((one.verdict != Verdict::fails && one.verdict != Verdict::not_measured), one.claim.text);
  BOOST_TEST(measured(run, "within 2: encoder.last.attention_2") == 22);
  // With a second seed whose attention differs by 4 %, the spread is that of the sheet's rows: runs that are alike do
  // not have the rows' parts.
  RunResult second = run;
  second.seed = 2;
  for (auto& [name, shares] : second.tests[0].attention_within)
    for (auto& [distance, percent] : shares)
      if (distance < 1000) percent += 4;
  SheetRuns seeds = of_sheet;
  for (auto& [row, runs] : seeds) runs.push_back(&second);
  seeds.alike["IWSLT"] = std::make_shared<AlikeRuns>(AlikeRuns{{{&run, &second}}});
  const CheckedClaim claim = check_claims(sheet, seeds).front();
  BOOST_TEST_REQUIRE(claim.difference.has_value());
  BOOST_TEST(claim.difference->value == 50, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(claim.difference->standard_error == std::sqrt(8.0), boost::test_tools::tolerance(1e-9));  // 8 / 2 + 8 / 2
  BOOST_TEST(claim.verdict_text() == "holds");
  for (const char* part : {"attention", "attention_2"})
    run.tests[0].attention_within.erase(fmt::format("encoder.2.{}", part));
  BOOST_TEST(std::isnan(measured(run, "within 2: encoder.middle.attention")));
  BOOST_TEST(
      contains(message_of([&] { measured(run, "within 2: encoder.second.attention"); }), "first, middle or last"));
  BOOST_TEST(measured(run, "within 2: encoder.last.attention") == 62);
}

BOOST_AUTO_TEST_CASE(a_sheet_that_contradicts_itself_is_refused_when_it_is_read) {
  const Sheet sheet = load_sheet("fan-table-5");
  BOOST_TEST(contains(sheet.claims.at(0).says, "neighbours than self-attention"), sheet.claims.at(0).says);
  BOOST_TEST(sheet.claims.at(2).says == "");
  Folder folder;
  const std::string text = contents(sheets_directory() + "/fan-table-5.json");
  const std::tuple<std::string, const char*, const char*> mistakes[] = {
      {"[SAN]", "[SUN]", "there is no row 'SUN'"},
      {"\"says\"", "\"said\"", "own.json: not a sheet (experiments/sheets/README.md): key 'says' not found"},
      {sheet.claims.at(0).says, " ", "'w = 1, layer 1[DMAN] > w = 1, layer 1[SAN]' has no words in \"says\""},
      {"\"main\": [", "\"main\": null, \"other\": [", "must be array"},
      {"\"printed\": false", "\"decimals\": -1", "own.json: column 'any distance, first layer' has -1 decimals"},
      {"\"rows\": [", "\"rows\": [], \"other\": [", "\"rows\" is empty; a sheet has at least one of them"}};
  for (const auto& [part, other, message] : mistakes) {
    std::string changed = text;
    changed.replace(changed.find(part), part.size(), other);
    std::ofstream(folder / "own.json") << changed;
    const std::string refusal = message_of([&] { load_sheet((folder / "own.json").string()); });
    BOOST_TEST(contains(refusal, message), refusal);
  }
}

BOOST_AUTO_TEST_CASE(claims_are_checked_and_an_untrained_row_is_noticed) {
  const Sheet sheet = load_sheet("nguyen-table-1");
  const std::string plain = "nguyen-table-1, En-De: Vaswani";
  const std::vector<RunResult> good{run_for(plain, "1110"), run_for("nguyen-table-1, En-De: Cr(AW,Seg)", "1111")},
      bad{run_for(plain, "0000")};
  std::map<Verdict, int> verdicts;
  for (const CheckedClaim& one : check_claims(sheet, runs_of(sheet, good))) ++verdicts[one.verdict];
  BOOST_TEST(verdicts[Verdict::not_measured] == 4);
  BOOST_TEST(verdicts[Verdict::open] + verdicts[Verdict::holds] == 1);
  BOOST_TEST(untrained(sheet, runs_of(sheet, good), "smoke") == "");
  const std::string why = untrained(sheet, runs_of(sheet, bad), "smoke");
  BOOST_TEST(contains(why, "BLEU 0.00 of Vaswani is below 25"), why);
}

BOOST_AUTO_TEST_CASE(verdicts_follow_the_intervals_of_the_differences) {
  Sheet sheet = load_sheet("nguyen-table-1");
  sheet.claims = {{"En-De BLEU[Shaw] > En-De BLEU[Vaswani]"},       {"En-De BLEU[Yang] > En-De BLEU[Vaswani]"},
                  {"En-De BLEU[Vaswani] < En-De BLEU[Shaw]"},       {"En-De BLEU[Yang] > En-De BLEU[Shaw]"},
                  {"En-De BLEU[Cr(AW,Seg)] > En-De BLEU[Vaswani]"}, {"En-De BLEU[Shaw] > 200", true}};
  // Shaw translates nearly all of 120 sentences, Vaswani and Yang half of them, but not the same ones.
  auto right = [](int seed, int of, int offset) {
    std::string text;
    for (int i = 0; i < 120; ++i) text += (i * 7 + seed * 3 + offset) % 10 < of ? '1' : '0';
    return text;
  };
  std::vector<RunResult> all;
  for (int seed : {1, 2}) {
    for (const auto& [row, answers] :
         {std::pair("Vaswani", right(seed, 5, 0)), {"Shaw", right(seed, 9, 0)}, {"Yang", right(seed, 5, 4)}})
      all.push_back(with(run_for(std::string("nguyen-table-1, En-De: ") + row, answers), {}, std::uint64_t(seed)));
  }
  const std::vector<CheckedClaim> checked = check_claims(sheet, runs_of(sheet, all));
  const Verdict expected[] = {Verdict::holds, Verdict::open,         Verdict::holds,
                              Verdict::fails, Verdict::not_measured, Verdict::fails};
  for (std::size_t k = 0; k < checked.size(); ++k)
    BOOST_TEST((checked[k].verdict == expected[k]), checked[k].words << ": " << checked[k].verdict_text());
  BOOST_TEST(checked[0].words == "En-De BLEU of 'Shaw' is above that of 'Vaswani'");
  BOOST_TEST(checked[0].verdict_text() == "holds");
  const SeededDifference& difference = checked[0].difference.value();
  const auto [low, high] = difference.interval();
  BOOST_TEST(checked[0].ours_text() == fmt::format("{:.2f} ({:.2f} to {:.2f})", difference.value, low, high));
  BOOST_TEST(checked[1].verdict_text() == fmt::format("open: {:.2f} would show", checked[1].difference->visible()));
  BOOST_TEST(checked[4].verdict_text() == "not measured");
  std::vector<RunResult> mixed = all;
  std::swap(mixed[1], mixed[4]);  // the seeds of 'Shaw' in another order
  const SheetRuns matched = runs_of(sheet, mixed);
  const SeedRuns& of_shaw = matched.at({"Shaw", "En-De"});
  BOOST_TEST((of_shaw.size() == 2u && of_shaw[0]->seed == 1u && of_shaw[1]->seed == 2u));  // compared in pairs
  BOOST_TEST(!checked[5].difference);
  all.resize(3);
  const CheckedClaim one_seed = check_claims(sheet, runs_of(sheet, all))[0];
  BOOST_TEST(one_seed.verdict_text() == "holds; one seed");
}

BOOST_AUTO_TEST_CASE(rows_that_had_not_converged_are_marked_and_not_judged) {
  Sheet sheet = load_sheet("nguyen-table-1");
  sheet.claims = {{"En-De BLEU[Shaw] > En-De BLEU[Vaswani]"}};
  const std::string plain = "nguyen-table-1, En-De: Vaswani", shaw = "nguyen-table-1, En-De: Shaw";
  std::string half, all(120, '1');
  for (int i = 0; i < 120; ++i) half += i * 7 % 10 < 5 ? '1' : '0';
  const auto runs_with = [&](double gain_of_shaw) {  // two seeds differ by sqrt(2 * 0.18)
    return std::vector<RunResult>{trained(with(run_for(plain, half), {}, 1), 31, 0.1),
                                  trained(with(run_for(plain, half), {}, 2), 31.6, -0.3),
                                  trained(with(run_for(shaw, all), {}, 1), 33.1, gain_of_shaw + 0.2),
                                  trained(with(run_for(shaw, all), {}, 2), 33.7, gain_of_shaw - 0.2)};
  };
  const std::vector<RunResult> still_learning = runs_with(0.65), ended = runs_with(0.55);
  const CheckedClaim open = check_claims(sheet, runs_of(sheet, still_learning))[0];
  BOOST_TEST(open.verdict_text() == "open: not converged");
  BOOST_TEST((open.verdict == Verdict::open && open.difference->interval().low > 0));
  BOOST_TEST(check_claims(sheet, runs_of(sheet, ended))[0].verdict_text() == "holds");
  std::vector<RunResult> without_evaluations = ended;
  for (RunResult& run : without_evaluations) run.log.clear();
  BOOST_TEST(check_claims(sheet, runs_of(sheet, without_evaluations))[0].verdict_text() == "open: not converged");
  const auto last_gains = [&](const std::vector<RunResult>& runs) {
    std::vector<std::string> cells;
    const std::vector<std::string> lines = csv_lines(sheet_table(sheet, runs_of(sheet, runs)));
    BOOST_TEST(contains(lines.at(0), "En-De difference,En-De last gain,"), lines[0]);
    for (const char* cell : {"-0.10", "0.65 †", "0.55"})
      if (contains(lines.at(1) + lines.at(2), std::string(",") + cell + ",")) cells.emplace_back(cell);
    return cells;
  };
  BOOST_TEST((last_gains(still_learning) == std::vector<std::string>{"-0.10", "0.65 †"}));
  BOOST_TEST((last_gains(ended) == std::vector<std::string>{"-0.10", "0.55"}));
  const RunResult of_perplexity = trained({}, 12.5, 0.75, false);  // which fell
  BOOST_TEST(gain_of_last_fifth(of_perplexity) == 0.75);
  BOOST_TEST(to_json(of_perplexity).at("training").at("gain_of_last_fifth") == 0.75);
  BOOST_TEST(std::isnan(gain_of_last_fifth(run_for(plain))));
}

BOOST_AUTO_TEST_CASE(differences_are_from_the_first_row_with_half_of_their_interval_and_the_number_of_seeds) {
  const Sheet sheet = load_sheet("methods");
  std::string half;
  for (int i = 0; i < 120; ++i) half += i * 7 % 10 < 5 ? '1' : '0';
  std::string more = half;
  for (std::size_t i = 0; i < 40; ++i) more[3 * i] = '1';
  const std::string task = "methods, En-De: ";
  const std::vector<RunResult> runs{trained(with(run_for(task + "plain", half), {}, 1), 30, -1),
                                    trained(with(run_for(task + "plain", half), {}, 3), 31, -1),
                                    trained(run_for(task + "Cr(AW,Seg) (Nguyen)", more), 32, 5)};
  const SheetRuns of_rows = runs_of(sheet, runs);
  const std::vector<std::string> lines = csv_lines(difference_table(sheet, of_rows));
  BOOST_TEST_REQUIRE(lines.size() == 3u);
  BOOST_TEST(lines[0].starts_with("method,En-De BLEU,En-De shortest third,"), lines[0]);
  const double plain = measured(runs[0], "BLEU");
  BOOST_TEST(lines[1].starts_with(fmt::format("plain,{:.2f} (2),", plain)), lines[1]);
  BOOST_TEST(lines[2].starts_with(fmt::format("\"Cr(AW,Seg) (Nguyen)\",{:+.2f} ± ", measured(runs[2], "BLEU") - plain)),
             lines[2]);
  BOOST_TEST(contains(lines[2], " (1)†,"), lines[2]);
}

BOOST_AUTO_TEST_CASE(a_third_of_the_test_examples_has_scores_of_its_own) {
  RunResult run = run_for("", "1011010");
  TestResult& test = run.tests[0];
  const std::size_t words[] = {9, 3, 7, 12, 3, 5, 20};  // of thirds with 2, 2 and 3 examples
  for (std::size_t k = 0; k < std::size(words); ++k)
    for (std::size_t i = 0; i < words[k]; ++i) test.examples[k].input += "w ";
  const auto score_of = [&](std::initializer_list<std::size_t> numbers) {
    RunResult part = run_for("", "");
    for (const std::size_t k : numbers) part.tests[0].examples.push_back(test.examples[k]);
    return measured(part, "BLEU");
  };
  BOOST_TEST(measured(run, "shortest third: BLEU") == score_of({1, 4}));
  BOOST_TEST(measured(run, "middle third: BLEU") == score_of({5, 2}));
  BOOST_TEST(measured(run, "longest third: BLEU") == score_of({0, 3, 6}));
  BOOST_TEST(score_of({1, 4}) < score_of({0, 3, 6}));
  BOOST_TEST(
      (metrics_of("longest third: mteval BLEU, lower case") == std::vector<std::string>{"mteval BLEU, lower case"}));
  test.known_key = "of a kept run without lengths";
  BOOST_TEST(std::isnan(measured(run, "longest third: BLEU")));
}

BOOST_AUTO_TEST_CASE(an_open_statement_says_whether_the_papers_difference_is_excluded) {
  CheckedClaim one{.claim = {"a > b"}, .verdict = Verdict::open};
  one.difference = SeededDifference{.value = -0.5, .standard_error = 0.1, .covers_seeds = true};
  const auto [low, high] = one.difference->interval();
  const std::string shows = fmt::format("open: {:.2f} would show", one.difference->visible());
  const auto verdict_if = [&](double in_paper, Verdict verdict = Verdict::open, const char* why_open = "") {
    one.left.in_paper = in_paper + 3.5, one.right.in_paper = 3.5;
    one.verdict = verdict, one.why_open = why_open;
    return one.verdict_text();
  };
  for (const double outside : {low - 0.01, high + 0.01})
    BOOST_TEST(verdict_if(outside) == shows + "; the paper's is outside");
  for (const double inside : {(low + high) / 2, std::nan("")}) BOOST_TEST(verdict_if(inside) == shows);
  BOOST_TEST(verdict_if(high + 1, Verdict::open, "other work changes speeds") == "open: other work changes speeds");
  BOOST_TEST(verdict_if(high + 1, Verdict::holds) == "holds");

  one.left.value = 3e200, one.right.value = 1;  // perplexities of models that are no good
  one.difference = SeededDifference{.value = 3e200, .standard_error = 1e200, .covers_seeds = true};
  BOOST_TEST(one.ours_text().starts_with("3e+200 ("));
  BOOST_TEST(one.ours_text().size() < 40u);
}

BOOST_AUTO_TEST_CASE(a_measurement_of_one_seed_is_a_fact_and_compared_number_with_number) {
  Sheet sheet = load_sheet("shu-table-1");
  sheet.claims = {{"En-Ja window[fine-tuned, τ = 1.2] < En-Ja window[Global]"},
                  {"En-Ja window[fine-tuned, τ = 1.2] > En-Ja window[Global]"}};
  RunResult global = run_for("shu-table-1, En-Ja: Global"), tuned = run_for("shu-table-1, En-Ja: fine-tuned, τ = 1.2");
  global.tests[0].measurements = {{"window", 8.996}};
  tuned.tests[0].measurements = {{"window", 4.109}};
  const std::vector<RunResult> runs{global, tuned};
  const std::vector<CheckedClaim> checked = check_claims(sheet, runs_of(sheet, runs));
  for (const CheckedClaim& one : checked) BOOST_TEST(one.ours_text() == "4.109 and 8.996");
  BOOST_TEST(checked[0].verdict_text() == "holds in one training");
  BOOST_TEST(checked[1].verdict_text() == "does not hold in one training");
}

BOOST_AUTO_TEST_CASE(the_spread_between_seeds_is_that_of_all_runs_alike) {
  Sheet sheet = load_sheet("nguyen-table-1");
  sheet.claims = {{"En-De BLEU[Shaw] > En-De BLEU[Vaswani]"}};
  const std::string& task = sheet.tasks.front().name;
  const RunResult none = run_for("", "0101010100"), some = run_for("", "0111010101"), all = run_for("", "1111111111");
  SheetRuns runs{{{"Vaswani", task}, {&none, &none}}, {{"Shaw", task}, {&some, &some}}};
  const auto width = [&] {
    const auto [low, high] = check_claims(sheet, runs)[0].difference.value().interval();
    return high - low;
  };
  const double of_the_table = width();  // whose seeds are equal
  runs.alike[task] =
      std::make_shared<AlikeRuns>(AlikeRuns{{{&none, &none}, {&some, &some}, {&none, &all}, {&some, &all}}});
  BOOST_TEST(width() > 1.5 * of_the_table);
}

BOOST_AUTO_TEST_CASE(speeds_of_trainings_are_printed_and_not_judged) {
  Sheet sheet = load_sheet("nguyen-table-4");
  sheet.claims = {{"steps/s[ours] < steps/s[Vaswani]"}};
  RunResult fast = run_for("", "1001"), slow = run_for("", "1001");
  fast.training = {.updates = 100, .update_cpu_seconds = 20};
  slow.training = {.updates = 100, .update_cpu_seconds = 40};
  const std::string& task = sheet.tasks.front().name;
  const SheetRuns runs{{{"Vaswani", task}, {&fast, &fast}}, {{"ours", task}, {&slow, &slow}}};
  const CheckedClaim claim = check_claims(sheet, runs)[0];
  BOOST_TEST(claim.ours_text() == "2.5 and 5");
  BOOST_TEST(claim.verdict_text() == "open: other work changes speeds");
}

BOOST_AUTO_TEST_CASE(two_statements_are_the_same_only_about_the_same_numbers) {
  const RunResult a = run_for("", "1001"), b = run_for("", "0111");
  const SeedRuns runs_a{&a}, runs_b{&b};
  const CheckedClaim::Side left{"BLEU", runs_a, 30}, right{"BLEU", runs_b, 31};
  const CheckedClaim claim{.claim = {"BLEU[A] > BLEU[B]"}, .sign = ">", .left = left, .right = right};
  CheckedClaim same = claim;
  same.claim.text = "En-De BLEU[C] > En-De BLEU[D]";
  BOOST_TEST(claim.is_same_comparison(same));
  std::vector<CheckedClaim> others(5, claim);
  others[0].sign = "<";
  others[1].claim.is_required = true;
  others[2].left.metric = "within 1: encoder.first.attention";
  others[3].right = {.value = 31};
  std::swap(others[4].left, others[4].right);
  for (const CheckedClaim& other : others) BOOST_TEST(!claim.is_same_comparison(other));
  CheckedClaim unmeasured = claim;
  unmeasured.right = {"BLEU", {}, std::nan("")};
  BOOST_TEST(!unmeasured.is_same_comparison(unmeasured));
}

BOOST_AUTO_TEST_CASE(columns_of_several_tasks_have_names_of_their_own) {
  const Sheet sheet = load_sheet("nguyen-table-5");
  const RunResult sst = run_for("", "1001", "accuracy"), imdb = run_for("", "0111", "accuracy");
  const SheetRuns runs{{{"Vaswani", "SST"}, {&sst}},
                       {{"Enc(MW)", "SST"}, {&sst}},
                       {{"Vaswani", "IMDB"}, {&imdb}},
                       {{"Enc(MW)", "IMDB"}, {&imdb}}};
  const std::string markdown = sheet_table(sheet, runs).markdown(), headings = markdown.substr(0, markdown.find('\n'));
  std::set<std::string> names;
  const auto columns = split_columns(headings, '|');
  for (std::string_view column : columns) names.insert(trimmed(column));
  BOOST_TEST(names.size() == columns.size() - 1, headings);  // nothing at both ends
  for (const char* name : {"SST p", "SST difference", "IMDB p", "IMDB difference"})
    BOOST_TEST(names.contains(name), name);
}

BOOST_AUTO_TEST_CASE(a_terminal_shows_our_numbers_as_long_as_any) {
  for (const char* name : {"nguyen-table-1", "shu-table-1", "yang-table-4"}) {
    const Sheet sheet = load_sheet(name);
    std::vector<RunResult> runs;
    for (const Sheet::Row& row : sheet.rows) runs.push_back(run_for(name_of(sheet, sheet.tasks[0], row)));
    std::string text = sheet_table(sheet, runs_of(sheet, runs)).text();
    std::ranges::replace(text, '\n', ' ');  // the line may be folded between the words
    BOOST_TEST(!contains(text.substr(std::min(text.find("Not shown"), text.size())), ", ours"), text);
  }
}

BOOST_AUTO_TEST_CASE(runs_of_other_examples_are_reported_apart) {
  const RunResult other = with(run_for("", "1011"), {{"attention", "relative"}});
  RunResult again = run_for("", "1001");
  again.seed = 2;
  const RunResult longer = run_for("", "11011");
  const std::vector<RunGroup> groups = comparable_groups({run_for(""), other, again, run_for(""), longer});
  BOOST_TEST_REQUIRE(groups.size() == 2u);
  BOOST_TEST_REQUIRE(groups[0].rows.size() == 2u);
  BOOST_TEST(groups[0].rows[0].runs.size() == 2u);  // two seeds; the same run once
  BOOST_TEST(groups[0].rows[1].title == "row, --attention relative");
  const RowOptions options = options_of(groups[0].rows);
  BOOST_TEST_REQUIRE(options.differing.size() == 1u);
  BOOST_TEST(options.differing[0].first == "attention");
  BOOST_TEST(options.differing[0].second.at(1) == "relative");
  BOOST_TEST((options.common.contains("data") && !options.common.contains("attention")));
}

BOOST_AUTO_TEST_CASE(spaces_in_a_specification_make_no_other_row) {
  const RunResult one = with(run_for("", "1011"), {{"attention", "window(use=additive, segment=5)"}});
  RunResult other = with(run_for("", "1001"), {{"attention", "window(use=additive,segment=5)"}});
  other.seed = 2;
  const std::vector<RunGroup> groups = comparable_groups({one, other});
  BOOST_TEST_REQUIRE(groups.size() == 1u);
  BOOST_TEST_REQUIRE(groups[0].rows.size() == 1u);
  BOOST_TEST(groups[0].rows[0].runs.size() == 2u);
}

BOOST_AUTO_TEST_CASE(labels_of_pictures_are_readable_and_fit) {
  BOOST_TEST(picture_label("▁dog") == "dog");
  BOOST_TEST(picture_label("ging") == "ging");
  BOOST_TEST(picture_label("▁") == "␣");
  // In DejaVu Sans an M is .86, a W .99 and an m .97 of the size.
  BOOST_TEST(text_pixels("MMWWmm", 10) >= 2 * (8.6 + 9.9 + 9.7));
  const HeadMaps maps{
      .title = "", .queries = {"WWWWWWWWWWWWWW"}, .keys = {"a"}, .heads = {{.name = "", .values = {1}}}};
  const std::string drawing = svg(maps), anchor = "text-anchor=\"end\"";
  const std::size_t label = drawing.rfind("<text", drawing.find(anchor));
  const double x = std::stod(drawing.substr(drawing.find("x=\"", label) + 3));
  BOOST_TEST(x >= 14 * 0.99 * 11);  // the label ends at x: less would clip it
}

BOOST_AUTO_TEST_CASE(a_report_of_several_comparisons_has_every_form) {
  Folder folder;
  const std::string a = (folder / "a").string(), b = (folder / "b").string();
  const std::vector<std::string> more{"--data", few_sentences, "--longest", "12"};
  for (const auto& [out, row] : {std::pair(a, "global"), std::pair(b, "relative")}) {
    succeeded(ended("translate", tiny(out, joined(more, {"--attention", row, "--seeds", "2"}))));
  }
  auto report = [&](const std::vector<std::string>& flags) {
    return succeeded(ended("report", joined({b, a}, flags))).out;
  };
  const std::map<std::string, std::vector<const char*>> forms{
      {"text",
       {"relative ", "global\n", "over 2 seeds", "against 'relative', two-sided paired bootstrap", "by 2 commands"}},
      {"latex", {"\\usepackage{booktabs}\n\\begin{tabular}{lr", " $\\pm$ "}},
      {"html", {">--attention<", ">How the runs were made<", "translate --model-dim 8", ">Development set"}}};
  for (const auto& [format, parts] : forms) {
    const std::string form = report({"--format", format});
    for (const char* part : parts) BOOST_TEST(contains(form, part), part << " is not in\n" << form);
    for (const char* part : {"Runs made 20", "Printed 20", "with fovea", ": report "})
      BOOST_TEST(contains(form, part), format);
    if (format == "html") BOOST_TEST(markup_error(form) == "");
  }
  const std::string curves = report({"--format", "svg"});
  BOOST_TEST(markup_error(curves.substr(curves.find("<svg"))) == "");
  BOOST_TEST(count(curves, ", mean ± deviation of seeds<") == 2u);
  BOOST_TEST(contains(report({"--sheet", "nguyen-table-1"}), "27.56"));
  std::filesystem::create_directory(folder / "empty");
  const std::string none = refusal_of(ended("report", {(folder / "empty").string()}));
  BOOST_TEST(contains(none, "has no finished run (result.json) in it"), none);
}

BOOST_AUTO_TEST_SUITE_END()
