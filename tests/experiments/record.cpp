// Tests of the record of a run: saving, loading, and the refusal of damaged files.
#include "experiments/support/record/record.h"

#include <cmath>

#include <boost/test/unit_test.hpp>

#include "experiments/support/record/kept_runs.h"
#include "experiments/support/text/lines.h"
#include "tests/files.h"

using namespace fovea;

namespace {

/// A result in which everything is there, with files that it describes.
RunResult full_result(const std::filesystem::path& directory) {
  RunResult result{.row = "gaussian(window=query)",
                   .trial = "dropout=0.1",
                   .seed = 7,
                   .directory = directory,
                   .parameters = 12345,
                   .goal = {{"updates", 10}, {"patience", 0}}};
  result.training = TrainingResult{.updates = 10,
                                   .best_update = 8,
                                   .score_name = "BLEU",
                                   .best_score = 27.125,
                                   .higher_is_better = true,
                                   .seconds = 1.5,
                                   .wall_seconds = 2.5,
                                   .cpu_seconds = 3.5};
  TestResult news{.set = "news/2014",
                  .examples = {{.input = "das Haus",
                                .reference = "the house .",
                                .hypothesis = "the house .",
                                .likelihood = {.negative_log = 1.25, .tokens = 4, .words = 3, .characters = 12}},
                               {.input = "\"ein\"\n\tBaum",
                                .reference = "a tree is there .",
                                .hypothesis = "",
                                .likelihood = {.negative_log = 0.1, .tokens = 3, .words = 2, .characters = 7}}},
                  .metrics = {"bleu", "perplexity", "word-perplexity"},
                  .measurements = {{"AER", 0.25, 3}, {"window", 4.5, 1}},
                  .decoding = SpentTime{0.5, 0.75},
                  .source_length = 5.5,
                  .pooled_window = 3.25,
                  .attention_within = {{"encoder.0.attention", {{1, 99.5}, {12, 100}}}}};
  news.options.tokenization = tokenization_of("char");
  TestResult classes{
      .set = "reviews",
      .examples =
          {{.input = "good", .reference = "yes", .hypothesis = "no", .group = 2, .probabilities = {0.25, 0.75}}},
      .metrics = {"accuracy"}};
  result.tests = {news, classes};
  std::ofstream(directory / "log.jsonl") << "{\"update\":10}\n";
  return result;
}

std::string text_of(const RunResult& result) {
  std::string text = to_json(result).dump(1);
  for (const TestResult& test : result.tests)
    for (const TestedExample& one : test.examples)
      text += fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}\n", one.input, one.reference, one.hypothesis,
                          one.likelihood.negative_log, one.likelihood.tokens, one.likelihood.words,
                          one.likelihood.characters, one.group, one.probabilities.size());
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(records)

BOOST_AUTO_TEST_CASE(a_result_that_is_saved_and_loaded_is_the_same) {
  Folder folder;
  const RunResult saved = full_result(folder.path);
  save_result(saved);
  const std::optional<RunResult> loaded = load_result(folder.path);
  BOOST_TEST_REQUIRE(loaded.has_value());
  BOOST_TEST(text_of(*loaded) == text_of(saved));
  BOOST_TEST(loaded->directory == folder.path);
  BOOST_TEST((loaded->goal == saved.goal));
  BOOST_TEST(loaded->tests[1].examples[0].probabilities == saved.tests[1].examples[0].probabilities,
             boost::test_tools::per_element());
  BOOST_TEST(loaded->tests[0].decoding->cpu == 0.75);
  BOOST_TEST(loaded->tests[0].scores()[0].metric.value() == saved.tests[0].scores()[0].metric.value());
  BOOST_TEST(!loaded->tests[1].decoding.has_value());
  for (const char* file : {"examples.news-2014.jsonl", "examples.reviews.jsonl"})
    BOOST_TEST(std::filesystem::exists(folder / file), file);
}

BOOST_AUTO_TEST_CASE(a_kept_run_has_the_same_scores_and_none_of_the_texts) {
  Folder folder;
  std::filesystem::create_directories(folder / "full");
  RunResult full = full_result(folder / "full");
  full.name = "a";
  full.made_for = {"nguyen-table-1, En-De: Vaswani", "yang-table-3: none"};
  full.configuration = {{"program", "translate"}, {"data", "/somewhere/data/news"}, {"layers", 2}, {"made-for", "x"}};
  std::ofstream(folder / "full" / "log.jsonl")
      << "{\"update\":10}\n{\"update\":20,\"unsmoothed_loss\":1.23456789,\"dev\":{\"BLEU\":3}}\n";
  save_start(folder / "full", "translate --data /somewhere/data/news");
  RunResult other = full;
  other.name = "b";
  other.configuration["layers"] = 3;
  other.made_for = {"fan-table-3: Transformer"};
  const auto all = [](const RunResult&, const std::string&) { return true; };
  const std::filesystem::path kept = folder / "kept";
  save_kept_runs({full}, "/somewhere/data", all, kept);
  save_kept_runs(
      {other}, "/somewhere/data", [](auto&, auto& score) { return score == "BLEU"; }, kept);
  BOOST_TEST(Json::parse(contents(kept / "fan.jsonl")).at("options") ==
             Json({{"program", "translate"}, {"layers", 3}}));
  const std::vector<RunResult> runs = load_kept_runs(kept);
  BOOST_TEST_REQUIRE(runs.size() == 2u);
  const RunResult& run = runs[1];
  BOOST_TEST(run.made_for == full.made_for, boost::test_tools::per_element());
  BOOST_TEST(to_json(run).dump(1) == to_json(full).dump(1));
  for (std::size_t k = 0; k < full.tests.size(); ++k) {
    const TestResult &before = full.tests[k], &after = run.tests[k];
    BOOST_TEST(after.key() == before.key());
    BOOST_TEST_REQUIRE(after.scores().size() == before.scores().size());
    for (std::size_t s = 0; s < before.scores().size(); ++s) {
      const SummedMetric &exact = before.scores()[s].metric, &rounded = after.scores()[s].metric;
      BOOST_TEST(rounded.examples() == exact.examples());
      BOOST_TEST(rounded.value() == exact.value(), boost::test_tools::tolerance(1e-4));
    }
  }
  BOOST_TEST(runs[0].tests[0].scores().size() == 1u);
  BOOST_TEST(runs[0].configuration.at("layers") == 3);
  BOOST_TEST(run.configuration == Json({{"data", "{data}/news"}, {"layers", 2}, {"program", "translate"}}));
  BOOST_TEST_REQUIRE(log_of(run).size() == 1u);
  BOOST_TEST(text_of(log_of(run)[0]) == "{\"update\":20,\"dev\":{\"BLEU\":3},\"unsmoothed_loss\":1.23457}");
  BOOST_TEST(!starts_of(run).at(0).contains("machine"));
  for (const auto& entry : std::filesystem::directory_iterator(kept))
    for (const char* text : {"Haus", "somewhere"})
      BOOST_TEST(read_text(entry.path()).find(text) == std::string::npos, entry.path().string());
  // A run that is kept again replaces the old one, and all other lines stay as they are.
  const std::string fan = contents(kept / "fan.jsonl"), nguyen = contents(kept / "nguyen.jsonl");
  full.seed = 8;
  save_kept_runs({full}, "/somewhere/data", all, kept);
  BOOST_TEST(contents(kept / "fan.jsonl") == fan);
  BOOST_TEST(contents(kept / "nguyen.jsonl") != nguyen);
  BOOST_TEST(load_kept_runs(kept).size() == 2u);
}

BOOST_AUTO_TEST_CASE(kept_runs_that_no_program_writes_are_refused_with_file_and_line) {
  Folder folder;
  RunResult run = full_result(folder.path);
  run.name = "a";
  run.made_for = {"fan-table-3: Transformer"};
  run.configuration = {{"program", "translate"}};
  save_kept_runs(
      {run}, "", [](auto&, auto&) { return true; }, folder / "kept");
  const std::filesystem::path runs = folder / "kept/fan.jsonl", examples = folder / "kept/examples.jsonl.gz";
  const std::string run_line = contents(runs);
  const std::vector<std::string> example_lines = read_lines(examples).lines;
  BOOST_TEST_REQUIRE(example_lines.size() == 2u);
  using Damage = std::function<void(Json&)>;
  const std::pair<Damage, const char*> of_run[] = {
      {[](Json& line) { line.erase("made_for"); }, "key 'made_for' not found"},
      {[](Json& line) { line["made_for"] = Json::array(); }, "the run a was made for no row"},
      {[](Json& line) { line["seed"] = "x"; }, "must be number"},
      {[](Json& line) { line["run"] = "b"; }, "the run \"a\" is in no file beside this one"},
      {[](Json& line) { line["tests"]["reviews"].erase("key"); }, "key 'key' not found"}};
  for (const auto& [damage, message] : of_run) {
    Json line = parse_json(run_line);
    damage(line);
    std::ofstream(runs) << text_of(line) << "\n";
    const std::string refusal = message_of([&] { load_kept_runs(folder / "kept"); });
    BOOST_TEST((contains(refusal, message) && contains(refusal, ":1: ")), refusal);
  }
  std::ofstream(runs) << run_line.substr(0, 50);
  BOOST_TEST(contains(message_of([&] { load_kept_runs(folder / "kept"); }), "fan.jsonl:1: "));
  std::ofstream(runs) << run_line;
  std::filesystem::remove(examples);
  BOOST_TEST(contains(message_of([&] { load_kept_runs(folder / "kept"); }), "has no scores of the run a and the test"));
  const std::pair<Damage, const char*> of_examples[] = {
      {[](Json& line) { line["scores"][0]["name"] = "score"; }, "the score '\"score\"' is not one of the run's"},
      {[](Json& line) { line["scores"][0]["width"] = 2; }, "is not one of the run's metrics"},
      {[](Json& line) { line["columns"].erase(line["columns"].size() - 1); }, "array index"},
      {[](Json& line) { line["columns"].push_back(0); }, "columns; the scores have"},
      {[](Json& line) { line["columns"][0] = 5; }, "column 0 stands for column 5, which is not before it"},
      {[](Json& line) { line["columns"][1] = {1}; }, "column 1 has 1 values for 2 examples"},
      {[](Json& line) { line["columns"][1][0] = "x"; }, "must be number"}};
  for (const auto& [damage, message] : of_examples) {
    Json line = parse_json(example_lines[0]);
    damage(line);
    std::ofstream(folder / "kept/examples.jsonl") << text_of(line) << "\n" << example_lines[1] << "\n";
    BOOST_TEST_REQUIRE(std::system(("gzip -f " + (folder / "kept/examples.jsonl").string()).c_str()) == 0);
    const std::string refusal = message_of([&] { load_kept_runs(folder / "kept"); });
    BOOST_TEST((contains(refusal, message) && contains(refusal, "examples.jsonl.gz:1: ")), refusal);
  }
}

BOOST_AUTO_TEST_CASE(a_failure_is_a_result_too) {
  Folder folder;
  save_result({.row = "a", .directory = folder.path, .failure = "training diverged at update 3"});
  const std::optional<RunResult> loaded = load_result(folder.path);
  BOOST_TEST_REQUIRE(loaded.has_value());
  BOOST_TEST(loaded->failure == "training diverged at update 3");
  BOOST_TEST(!loaded->training.has_value());
  BOOST_TEST(loaded->tests.empty());
}

BOOST_AUTO_TEST_CASE(a_run_that_is_not_finished_has_no_result) {
  Folder folder;
  BOOST_TEST(!load_result(folder.path).has_value());
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_comes_back_too) {
  Folder folder;
  RunResult result = full_result(folder.path);
  result.tests[0].measurements = {{"AER", std::nan(""), 3}};
  result.tests[0].source_length = std::nan("");
  result.tests[0].examples[0].likelihood.negative_log = std::numeric_limits<double>::infinity();
  result.tests[1].examples[0].probabilities = {std::nan(""), 1};
  save_result(result);
  const std::optional<RunResult> loaded = load_result(folder.path);
  BOOST_TEST_REQUIRE(loaded.has_value());
  BOOST_TEST(!std::isfinite(loaded->tests[0].measurements.at(0).value));
  BOOST_TEST(!std::isfinite(loaded->tests[0].examples[0].likelihood.negative_log));
  BOOST_TEST(!std::isfinite(loaded->tests[1].examples[0].probabilities.at(0)));
}

BOOST_AUTO_TEST_CASE(a_flipped_byte_is_noticed_and_its_file_named) {
  Folder folder;
  save_result(full_result(folder.path));
  auto message = [&] { return message_of([&] { load_result(folder.path); }); };
  for (const char* name : {"examples.news-2014.jsonl", "examples.reviews.jsonl", "log.jsonl"}) {
    const std::string path = (folder / name).string(), text = contents(path);
    for (std::size_t at = 0; at < text.size(); at += 7) {
      std::string flipped = text;
      flipped[at] = char(flipped[at] ^ 1);
      std::ofstream(path) << flipped;
      BOOST_TEST(message().starts_with(path + ": damaged: its checksum is "), message());
    }
    std::ofstream(path) << text + "\n";
    BOOST_TEST(contains(message(), path + ": damaged"), message());
    std::filesystem::remove(path);
    BOOST_TEST(message() == path + ": the file is missing; result.json has its checksum");
    std::ofstream(path) << text;
    BOOST_TEST(message() == "no error");
  }
}

BOOST_AUTO_TEST_CASE(a_changed_digit_of_a_result_is_noticed) {
  Folder folder;
  save_result(full_result(folder.path));
  const std::string path = (folder / "result.json").string(), text = contents(path);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] < '0' || text[at] > '9') continue;
    std::string changed = text;
    changed[at] = changed[at] == '5' ? '6' : '5';
    if (Json::parse(changed, nullptr, false) == Json::parse(text)) continue;  // the same number
    std::ofstream(path) << changed;
    BOOST_TEST(message_of([&] { load_result(folder.path); }) != "no error", changed.substr(at > 20 ? at - 20 : 0, 40));
  }
}

BOOST_AUTO_TEST_CASE(a_result_that_no_run_writes_is_refused) {
  Folder folder;
  save_result(full_result(folder.path));
  const std::string path = (folder / "result.json").string();
  const Json whole = load_json(path);
  auto message_without = [&](const std::function<void(Json&)>& damage) {
    Json json = whole;
    damage(json);
    save_json(path, json);
    return message_of([&] { load_result(folder.path); });
  };
  for (const char* key : {"row", "seed", "parameters", "tests", "checksums"})
    BOOST_TEST(message_without([&](Json& json) {
                 json.erase(key);
               }).starts_with(path + ": not a file that a run wrote: key '" + key + "' not found"));
  BOOST_TEST(
      message_without([](Json& json) { json["seed"] = "x"; }).starts_with(path + ": not a file that a run wrote: "));
  BOOST_TEST(message_without([](Json& json) { json["tests"]["reviews"]["tokenize"] = "words"; }) != "no error");
  std::ofstream(path) << "{";
  BOOST_TEST(
      message_of([&] { load_result(folder.path); }).starts_with(path + ": not JSON, or cut short, at line 1, column "));
}

BOOST_AUTO_TEST_CASE(every_start_is_recorded) {
  Folder folder;
  save_start(folder.path, "translate --data 'a b'");
  save_start(folder.path, "translate --resume x");
  const Json starts = load_json(folder / "run.json");
  BOOST_TEST_REQUIRE(starts.size() == 2u);
  BOOST_TEST(starts[0].at("command") == "translate --data 'a b'");
  BOOST_TEST(starts[1].at("command") == "translate --resume x");
  BOOST_TEST(starts[0].at("directory") == std::filesystem::current_path().string());
  for (const char* key : {"started", "version", "commit", "machine", "processor"})
    BOOST_TEST(!starts[0].at(key).get<std::string>().empty(), key);
  BOOST_TEST(starts[0].at("threads") >= 1);
}

BOOST_AUTO_TEST_CASE(a_list_of_starts_that_is_none_is_refused) {
  Folder folder;
  std::ofstream(folder / "run.json") << "{}";
  BOOST_TEST(message_of([&] { save_start(folder.path, "translate"); }) ==
             (folder / "run.json").string() + ": not what a run writes: expected a list, found object");
}

BOOST_AUTO_TEST_CASE(scores_are_those_of_texts_and_of_likelihoods) {
  const double nats = 3 * std::log(2.0);
  const std::vector<TestedExample> examples{
      {.reference = "a b c d e",
       .hypothesis = "a b c d e",
       .likelihood = {.negative_log = nats, .tokens = 2, .words = 3, .characters = 6}},
      {.reference = "f g h i",
       .hypothesis = "f g h i",
       .likelihood = {.negative_log = nats, .tokens = 1, .words = 3, .characters = 6}}};
  const std::vector<TextScore> scores =
      scores_of(examples, {"bleu", "perplexity", "word-perplexity", "bits-per-character"}, {});
  BOOST_TEST_REQUIRE(scores.size() == 4u);
  const double expected[] = {100, 4, 2, 0.5};
  for (std::size_t k = 0; k < 4; ++k)
    BOOST_TEST(scores[k].metric.value() == expected[k], boost::test_tools::tolerance(1e-9));
  BOOST_TEST(!scores[1].metric.higher_is_better);
  // texts that were cut have no words
  const std::vector<TestedExample> cut{{.reference = "a", .likelihood = {.negative_log = 1, .tokens = 2}}};
  BOOST_TEST(scores_of(cut, {"perplexity", "word-perplexity", "bits-per-character"}, {}).size() == 1u);
  BOOST_TEST(contains(message_of([&] { scores_of(examples, {"blue"}, {}); }), "blue"));
}

BOOST_AUTO_TEST_SUITE_END()
