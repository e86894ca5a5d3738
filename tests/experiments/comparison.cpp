// Comparisons: their rows, the experiments that run them, and the tables of what came out.
#include "experiments/support/program/comparison.h"

#include <boost/test/unit_test.hpp>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/program/program.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/report/comparison_table.h"
#include "tests/experiments/markup.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

using Texts = std::vector<std::string>;

std::vector<Comparison::Row> rows_of(const std::string& compare, const std::string& attention = "global") {
  const std::string flag = "--compare=" + compare, value = "--attention=" + attention;
  const char* arguments[] = {"test", flag.c_str(), value.c_str()};
  Cli cli("test", compare == "none" ? 1 : 3, arguments);
  std::string of_line = attention;
  cli.option("--attention", of_line, "attention method");
  Comparison comparison("--attention");
  comparison.add_to(cli);
  cli.parse();
  return comparison.rows(cli);
}

Texts titles_of(const std::string& compare) {
  Texts titles;
  for (const Comparison::Row& row : rows_of(compare)) titles.push_back(row.title);
  return titles;
}

std::string refusal(const std::string& compare) {
  return message_of([&] { rows_of(compare); });
}

Texts texts_of(const std::string& grid) {
  Texts texts;
  for (const GridPoint& point : grid_points(grid)) texts.push_back(point.text);
  return texts;
}

/// A finished run whose examples are right where `right` has a 1.
RunResult run_of(std::uint64_t seed, double dev, const std::string& right, bool higher_is_better = true) {
  RunResult run{.row = "row", .seed = seed, .parameters = 10};
  run.training = TrainingResult{.updates = 10,
                                .score_name = "accuracy",
                                .best_score = dev,
                                .higher_is_better = higher_is_better,
                                .seconds = 2,
                                .update_cpu_seconds = 2};
  TestResult test{.metrics = {"accuracy"}};
  for (char one : right) test.examples.push_back({.reference = "yes", .hypothesis = one == '1' ? "yes" : "no"});
  run.tests = {test};
  return run;
}

RunResult failed_run(std::uint64_t seed) { return {.row = "row", .seed = seed, .failure = "training diverged"}; }

Ended agreement(const std::vector<std::string>& flags) { return ended("agreement", flags); }

}  // namespace

BOOST_AUTO_TEST_SUITE(comparisons)

BOOST_AUTO_TEST_CASE(flags_of_a_row_are_arguments) {
  BOOST_TEST(arguments_of("--a x y --b") == (Texts{"--a=x y", "--b"}), boost::test_tools::per_element());
  BOOST_TEST(arguments_of("  --a=1   --b \"c d\" --e 'f' ") == (Texts{"--a=1", "--b=c d", "--e=f"}),
             boost::test_tools::per_element());
  BOOST_TEST(arguments_of("--rate -1") == (Texts{"--rate=-1"}), boost::test_tools::per_element());
  BOOST_TEST(arguments_of("").empty());
}

BOOST_AUTO_TEST_CASE(braces_make_grids) {
  BOOST_TEST(texts_of("a") == Texts{"a"}, boost::test_tools::per_element());
  BOOST_TEST(texts_of("--x {1,2} --y {3, 4}") == (Texts{"--x 1 --y 3", "--x 1 --y 4", "--x 2 --y 3", "--x 2 --y 4"}),
             boost::test_tools::per_element());
  // commas in parentheses separate nothing
  BOOST_TEST(
      texts_of("{gaussian(window=query, layers=1),global}") == (Texts{"gaussian(window=query, layers=1)", "global"}),
      boost::test_tools::per_element());
  BOOST_TEST(texts_of("constant(rate={1e-3,1e-2})") == (Texts{"constant(rate=1e-3)", "constant(rate=1e-2)"}),
             boost::test_tools::per_element());
  BOOST_TEST(texts_of("--x {1}") == Texts{"--x 1"}, boost::test_tools::per_element());
  BOOST_TEST(grid_points("--x {1,2} --y {3,4}").at(1).choice == "1 4");
  BOOST_TEST(message_of([] { grid_points("--x {1,2"); }) == "'--x {1,2': a '{' without its '}'");
  BOOST_TEST(message_of([] { grid_points("--x 1,2}"); }) == "'--x 1,2}': a '}' without its '{'");
  for (const char* unpaired : {"} {1,2}", "{1,{2}", "{1,{2,3}}", "{1,2} }", "{1,2} {", "}{"})
    BOOST_TEST(contains(message_of([&] { grid_points(unpaired); }), " without its "), unpaired);
}

BOOST_AUTO_TEST_CASE(rows_have_titles) {
  BOOST_TEST(
      titles_of("global; gaussian(window=query, layers=1) ;") == (Texts{"global", "gaussian(window=query, layers=1)"}),
      boost::test_tools::per_element());
  BOOST_TEST(titles_of("wide: --dim {64,128} --heads {2,4}; --dim 8") ==
                 (Texts{"wide 64 2", "wide 64 4", "wide 128 2", "wide 128 4", "--dim 8"}),
             boost::test_tools::per_element());
  BOOST_TEST(titles_of("--dim {8,16}; gaussian(width={2,4})") ==
                 (Texts{"--dim 8", "--dim 16", "gaussian(width=2)", "gaussian(width=4)"}),
             boost::test_tools::per_element());
  const std::vector<Comparison::Row> rows = rows_of("global; wide: --dim {64} --name x y");
  BOOST_TEST(rows[0].arguments == Texts{"--attention=global"}, boost::test_tools::per_element());
  BOOST_TEST(rows[1].arguments == (Texts{"--dim=64", "--name=x y"}), boost::test_tools::per_element());
  // without --compare there is one row, of the command line
  BOOST_TEST(rows_of("none", "gaussian").at(0).title == "gaussian");
  BOOST_TEST(rows_of("none", "gaussian").at(0).arguments.empty());
  BOOST_TEST(rows_of("none", "").at(0).title == "model");
}

BOOST_AUTO_TEST_CASE(rows_that_are_none_or_the_same_are_refused) {
  BOOST_TEST(refusal("global; gaussian;global") == "--compare: there are two rows 'global'; rows need different names");
  BOOST_TEST(
      refusal("a b; a-b") ==
      "--compare: the rows 'a b' and 'a-b' would share the folder a-b; name one, as in \"mine: --attention ...\"");
  BOOST_TEST(refusal("日本; 中文") == "no error");
  BOOST_TEST(refusal("w: --dim {1,1}") == "--compare: there are two rows 'w 1'; rows need different names");
  BOOST_TEST(refusal(" ; ").starts_with("--compare: ' ; ' has no rows"));
  BOOST_TEST(refusal("global; wide: --dim {1,2") == "--compare: 'wide: --dim {1,2': a '{' without its '}'");
}

BOOST_AUTO_TEST_CASE(the_best_run_is_the_best_on_the_development_set) {
  const std::vector<ComparedRow> rows{{"a", "", {run_of(1, 50, "11"), run_of(2, 70, "01")}},
                                      {"b", "", {run_of(1, 60, "11")}},
                                      {"c", "", {failed_run(1)}}};
  BOOST_TEST(best_of(rows).title == "a");
  BOOST_TEST(best_of(rows).best().seed == 2u);
  BOOST_TEST(!rows[0].is_better_than(rows[1]));  // by the mean
  BOOST_TEST(rows[1].is_better_than(rows[2]));
  BOOST_TEST(!rows[2].is_better_than(rows[1]));
  const std::vector<ComparedRow> losses{{"a", "", {run_of(1, 5, "1", false)}}, {"b", "", {run_of(1, 4, "1", false)}}};
  BOOST_TEST(best_of(losses).title == "b");
  BOOST_TEST(losses[1].is_better_than(losses[0]));
  BOOST_TEST(all_failed({rows[2]}));
  BOOST_TEST(!all_failed(rows));
}

BOOST_AUTO_TEST_CASE(a_trial_with_a_run_that_diverged_is_worse_than_one_without) {
  const ComparedRow half{"a", "rate=1", {run_of(1, 90, "1"), failed_run(2)}};
  const ComparedRow whole{"a", "rate=2", {run_of(1, 20, "1"), run_of(2, 20, "1")}};
  BOOST_TEST(whole.is_better_than(half));
  BOOST_TEST(!half.is_better_than(whole));
}

BOOST_AUTO_TEST_CASE(rows_that_are_selected_by_other_scores_or_have_learnt_nothing_have_no_best_one) {
  RunResult other = run_of(1, 3, "1", false);
  other.training->score_name = "perplexity";
  const ComparedRow first{"a", "", {run_of(1, 90, "1")}}, second{"b", "", {other}};
  const ComparedRow none{"c", "", {run_of(1, 0, "0"), run_of(2, 0, "0")}};
  BOOST_TEST(have_best({first}));
  BOOST_TEST(have_best({none, first}));
  BOOST_TEST(!have_best({first, second}));
  BOOST_TEST(!have_best({none, none}));
}

BOOST_AUTO_TEST_CASE(statistics_of_an_example_are_the_mean_over_seeds) {
  const ComparedRow row{"a", "", {run_of(1, 50, "1100"), failed_run(2), run_of(3, 70, "0110")}};
  const TextScore pooled = pooled_score(row.finished(), "test", "accuracy %").value();
  BOOST_TEST(pooled.metric.value() == 50.0);
  const std::vector<double> one = run_of(1, 0, "1100").tests[0].scores()[0].metric.statistics,
                            two = run_of(3, 0, "0110").tests[0].scores()[0].metric.statistics;
  for (std::size_t i = 0; i < one.size(); ++i) BOOST_TEST(pooled.metric.statistics[i] == (one[i] + two[i]) / 2);
}

BOOST_AUTO_TEST_CASE(p_is_that_of_all_seeds_pooled) {
  std::string low, high, low2, high2;
  for (int k = 0; k < 200; ++k) {
    low += k % 2 ? '1' : '0';
    high += k % 5 ? '1' : '0';
    low2 += k % 3 ? '0' : '1';
    high2 += k % 7 ? '1' : '0';
  }
  const std::vector<ComparedRow> rows{{"low", "", {run_of(1, 1, low), run_of(2, 1, low2)}},
                                      {"same", "", {run_of(1, 1, low), run_of(2, 1, low2)}},
                                      {"high", "", {run_of(1, 1, high), run_of(2, 1, high2)}}};
  const std::string table = comparison_table(rows).csv();
  std::istringstream lines(table);
  Texts line(4);
  for (std::string& one : line) std::getline(lines, one);
  BOOST_TEST(line[0] == "model,accuracy %,accuracy % deviation,p,parameters,steps/s,relative");
  BOOST_TEST(contains(line[2], ",1,10,5,1"), table);  // the same answers: p is 1
  auto pooled = [&](std::size_t k) { return pooled_score(rows[k].finished(), "test", "accuracy %")->metric; };
  const double p = paired_bootstrap(pooled(0), pooled(2)).p;
  BOOST_TEST(p < 0.05);
  BOOST_TEST(contains(line[3], fmt::format(",{},10,5,1", p)), table);
  const std::string caption = comparison_caption(rows);
  BOOST_TEST(contains(caption, "test: 200 examples, mean ± standard deviation over 2 seeds."));
  BOOST_TEST(contains(caption, "against 'low', two-sided paired bootstrap"));
}

BOOST_AUTO_TEST_CASE(speeds_are_compared_by_processor_time) {
  RunResult quick = run_of(1, 1, "1100"), slow = quick;
  slow.training->update_cpu_seconds = 4;  // twice the work,
  slow.training->seconds = 1;             // in less time, because the first run shared the machine
  const std::string csv = comparison_table({{"quick", "", {quick}}, {"slow", "", {slow}}}).csv();
  BOOST_TEST(contains(csv, "\nslow,50,1,10,10,0.5\n"), csv);
  // For a run on a GPU the CPU only waits, so the table compares elapsed seconds instead of CPU seconds.
  quick.configuration = slow.configuration = Json{{"device", "cuda"}};
  const std::string on_gpu = comparison_table({{"quick", "", {quick}}, {"slow", "", {slow}}}).csv();
  BOOST_TEST(contains(on_gpu, "\nslow,50,1,10,10,2\n"), on_gpu);
}

BOOST_AUTO_TEST_CASE(a_failed_run_leaves_its_row_and_its_reason) {
  const std::vector<ComparedRow> rows{{"bad", "", {failed_run(1)}},
                                      {"half", "", {failed_run(1), run_of(2, 1, "1100")}},
                                      {"good", "", {run_of(1, 1, "1110"), run_of(2, 1, "1110")}}};
  const std::string text = comparison_table(rows).text();
  for (const char* title : {"\nbad ", "\nhalf ", "\ngood "}) BOOST_TEST(contains(text, title), text);
  BOOST_TEST(contains(text, " 50.0"), text);
  const std::string csv = comparison_table(rows).csv();  // of the half that failed nothing but its reason is there
  BOOST_TEST(contains(csv, "\nbad,,,,,,\n"), csv);
  BOOST_TEST(contains(csv, "\nhalf,50,"), csv);
  BOOST_TEST(contains(csv, ",10,5,"), csv);
  const std::string trials = trials_table({{"a", "x=1", {failed_run(1)}}, {"a", "x=2", {run_of(1, 7, "1")}}}).csv();
  BOOST_TEST(trials == "row,trial,development accuracy\na,x=1,\na,x=2,7\n");
  const std::string caption = comparison_caption(rows);
  BOOST_TEST(contains(caption, "\nbad seed 1: training diverged\nhalf seed 1: training diverged\n"), caption);
  // the others are tested against the first row that has a finished run, and the caption says so
  BOOST_TEST(contains(caption, "against 'half' (all runs of 'bad' failed), two-sided paired bootstrap"), caption);
}

BOOST_AUTO_TEST_CASE(a_row_that_diverges_is_reported_and_the_others_are_finished) {
  Folder folder;
  const std::string out = (folder / "out").string();
  const Texts flags{"--compare",        "a: --schedule constant(rate=1e-3); b: --schedule constant(rate=1e30)",
                    "--clip",           "0",
                    "--updates",        "4",
                    "--evaluate-every", "2"};
  Ended first = succeeded(agreement(tiny_classifier(out, flags)));
  BOOST_TEST((contains(first.out, "\na  ") && contains(first.out, "\nb  ")), first.out);  // the rows of the table
  BOOST_TEST(contains(first.err, "b seed 1: training diverged at update "), first.err);
  BOOST_TEST(contains(first.out, "b seed 1: training diverged at update "), first.out);
  BOOST_TEST(contains(first.out, "best model: " + out + "/a-seed-1\n"), first.out);
  const std::string page = contents(folder / "out" / "report.html");
  BOOST_TEST(markup_error(page) == "");
  BOOST_TEST(contains(page, "b seed 1: training diverged at update "));
  const Json record = load_json(folder / "out" / "b-seed-1" / "result.json");
  BOOST_TEST(record.at("failure").get<std::string>().starts_with("training diverged at update "));
  BOOST_TEST(record.at("tests").empty());

  const Ended again = succeeded(agreement({"--resume", out}));
  BOOST_TEST(!contains(again.err, "diverged"), again.err);  // is not tried again
  BOOST_TEST(contains(again.out, "b seed 1: training diverged at update "), again.out);
  // other goals are tried, and fail again
  const Ended longer = succeeded(agreement({"--resume", out, "--updates", "6"}));
  BOOST_TEST(contains(longer.err, "b seed 1: training diverged"), longer.err);
  BOOST_TEST(load_json(folder / "out" / "a-seed-1" / "result.json").at("training").at("updates") == 6);
}

BOOST_AUTO_TEST_CASE(every_row_is_checked_before_the_first_one_is_trained) {
  Folder folder;
  for (const std::string program : {"tagging", "sentiment", "translate"}) {
    const std::string out = (folder / program).string();
    for (const auto& [rows, reason] :
         {std::pair("global; gausian", "--compare: 'gausian': --attention: 'gausian': no method 'gausian'"),
          {"global; big: --model-dim 65536 --layers 1000", "--compare: 'big': --model-dim 65536,"},
          {"global; odd: --heads 3", "--compare: 'odd': --heads 3: must divide --model-dim 8"}}) {
      const Ended refused = ended(program, {"--data", "generated:train=60,dev=10,test=12", "--model-dim", "8",
                                            "--updates", "2", "--out", out, "--compare", rows});
      BOOST_TEST(contains(refusal_of(refused), reason), program << ": " << refused.err);
      BOOST_TEST(!std::filesystem::exists(out), program);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_experiment_of_which_all_runs_diverge_fails) {
  for (const char* rate : {"1e6", "1e20", "1e39"}) {
    Folder folder;
    const Texts one{
        "--schedule", fmt::format("constant(rate={})", rate), "--clip", "0", "--updates", "8", "--checkpoint-every",
        "1"};
    const Ended diverged = agreement(tiny_classifier((folder / "one").string(), one));
    BOOST_TEST(diverged.status == 2);
    BOOST_TEST(count(diverged.err, "training diverged at update ") == 1u, diverged.err);
    BOOST_TEST(contains(diverged.err, "(--schedule), or a --clip, may help"), diverged.err);
    BOOST_TEST(!std::filesystem::exists(folder / "one" / "report.html"));
    // models that decode before the loss is seen again
    const std::string decoded = refusal_of(
        ended("translate", tiny((folder / "two").string(),
                                joined({"--data", few_sentences, "--longest", "12", "--evaluate-every", "1"}, one))));
    BOOST_TEST(contains(decoded, "training diverged at update "), decoded);
  }
}

BOOST_AUTO_TEST_CASE(finished_runs_are_neither_trained_nor_tested_again) {
  Folder folder;
  const std::string out = (folder / "out").string();
  Ended first = succeeded(ended("translate", tiny(out, {"--data", few_sentences, "--longest", "6", "--compare",
                                                        "a: --beam 1; b: "
                                                        "--heads 1"})));
  std::map<std::string, std::filesystem::file_time_type> times;
  auto files = [&](const std::function<void(const std::string&)>& visit) {
    for (const char* run : {"a-seed-1", "b-seed-1"})
      for (const auto& entry : std::filesystem::directory_iterator(folder / "out" / run))
        if (entry.path().filename() != "config.json") visit(entry.path().string());
  };
  files([&](const std::string& path) { times[path] = std::filesystem::last_write_time(path); });
  BOOST_TEST(times.size() >= 2u * 7u);
  const Ended again = succeeded(ended("translate", {"--resume", out}));
  files([&](const std::string& path) {
    BOOST_TEST(times.contains(path), path);
    BOOST_TEST((std::filesystem::last_write_time(path) == times[path]), path);
  });
  auto table_of = [](const std::string& text) { return text.substr(text.find("\nmodel ")); };
  BOOST_TEST(table_of(again.out) == table_of(first.out));
  // but what is damaged is named
  std::ofstream(folder / "out" / "b-seed-1" / "examples.test.jsonl", std::ios::app) << "\n";
  const Ended damaged = ended("translate", {"--resume", out});
  BOOST_TEST(damaged.status == 2);
  BOOST_TEST(contains(damaged.err, out + "/b-seed-1/examples.test.jsonl: damaged"), damaged.err);
}

BOOST_AUTO_TEST_CASE(a_warm_up_that_is_too_long_is_warned_of_once_with_the_flag_that_shortens_it) {
  Folder folder;
  const Ended done = succeeded(agreement(
      tiny_classifier((folder / "out").string(), {"--compare", "global; gaussian", "--seeds", "2", "--schedule",
                                                  "inverse_sqrt(peak=1e-3, warmup=40)", "--updates", "20"})));
  const std::string warning =
      "warning: the warm-up of 40 updates is longer than the training of 20; a shorter one: --schedule "
      "\"inverse_sqrt(peak=0.001, warmup=2, init=1e-07)\"";
  BOOST_TEST(count(done.out + done.err, "warning: the warm-up") == 1u, done.err);
  BOOST_TEST(contains(done.out + done.err, warning), done.err);
}

BOOST_AUTO_TEST_CASE(a_search_takes_the_best_trial_of_each_row) {
  Folder folder;
  const std::string out = (folder / "out").string();
  const Texts flags{
      "--compare", "global; gaussian", "--search", "schedule=constant(rate={1e-6,1e-2}); dropout={0,0.1}", "--updates",
      "20",        "--seed",           "5"};
  Ended found = succeeded(agreement(tiny_classifier(out, flags)));
  std::map<std::string, double> best;
  for (const char* row : {"global", "gaussian"})
    for (const char* rate : {"1e-6", "1e-2"})
      for (const char* dropout : {"0", "0.1"}) {
        const std::string trial = fmt::format("schedule=constant(rate={}) dropout={}", rate, dropout);
        BOOST_TEST(contains(found.out, trial), found.out);
        const std::filesystem::path run = folder / "out" / file_name_for(fmt::format("{} {} seed 5", row, trial));
        const Json result = load_json(run / "result.json");
        BOOST_TEST(result.at("row") == row);
        BOOST_TEST(result.at("trial") == trial);
        best[row] = std::max(best[row], result.at("training").at("best_score").get<double>());
        const Json configuration = load_json(run / "config.json");
        BOOST_TEST(configuration.at("schedule") == fmt::format("constant(rate={})", rate));
        BOOST_TEST(configuration.at("search") == "");
      }
  // the table of rows has one trial of each, the best
  const std::string table = found.out.substr(found.out.find("\nmodel "));
  const std::string rows = table.substr(0, table.find("\nrow "));
  BOOST_TEST(count(rows, "global schedule=") == 1u, rows);
  BOOST_TEST(count(rows, "gaussian schedule=") == 1u, rows);
  const std::string model = found.out.substr(found.out.find("best model: ") + 12);
  const std::filesystem::path directory = model.substr(0, model.find('\n'));
  BOOST_TEST(load_json(directory / "result.json").at("training").at("best_score").get<double>() ==
             std::max(best["global"], best["gaussian"]));
  BOOST_TEST(contains(contents(folder / "out" / "report.html"), ">Search<"));
  const std::string reported = succeeded(ended("report", {out})).out;  // without the trials that lost
  BOOST_TEST(count(reported, "gaussian schedule=") == 1u, reported);
  succeeded(agreement({"--resume", out}));
  const std::string alone =
      refusal_of(agreement(tiny_classifier((folder / "no").string(), {"--search", "dropout={0}"})));
  BOOST_TEST(alone.starts_with("agreement: --search 'dropout={0}': there is only one trial"), alone);
  auto complaint_of = [&](const char* search) {
    return agreement(tiny_classifier((folder / "no").string(), {"--search", search})).err;
  };
  BOOST_TEST(complaint_of("dropout={0,0}") == "agreement: --search 'dropout={0,0}': 'dropout=0' is there twice\n");
  BOOST_TEST(contains(complaint_of("layers={1,2}; layers={1}"),
                      "--search 'layers={1,2}; layers={1}': --layers has values twice"));
  BOOST_TEST(contains(complaint_of("seed={1,2}"), "--seed=1: cannot differ between rows and trials"));
  const Ended unknown = agreement(tiny_classifier((folder / "no").string(), {"--search", "dropuot={0,1}"}));
  BOOST_TEST(contains(unknown.err, "--dropuot: no such flag; did you mean '--dropout'?"), unknown.err);
  BOOST_TEST(!std::filesystem::exists(folder / "no"));
}

BOOST_AUTO_TEST_SUITE_END()
