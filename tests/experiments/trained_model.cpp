// What is done with a trained model: testing it, decoding, forcing, alignments, sampling.
#include "experiments/support/models/trained_model.h"

#include <csignal>
#include <fstream>
#include <sstream>

#include <boost/test/unit_test.hpp>

#include "experiments/support/metrics/alignment.h"
#include "experiments/support/models/sequence_testing.h"
#include "experiments/support/program/interrupt.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/text/words.h"
#include "tests/experiments/programs.h"
#include "tests/experiments/small_sequences.h"

using namespace fovea;

namespace {

/// A run of `program`, four updates long, in a folder of its own.
struct TrainedRun {
  Folder folder;
  std::string program;
  std::string directory = (folder / "run").string();
  Json result;

  TrainedRun(const std::string& of, std::vector<std::string> flags) : program(of) {
    if (program == "translate") flags.insert(flags.end(), {"--longest", "12"});
    succeeded(ended(program, tiny(directory, flags)));
    result = load_json(folder / "run" / "result.json");
  }

  Ended use(std::vector<std::string> flags, const std::string& input = "") const {
    flags.insert(flags.begin(), {"--model", directory});
    return ended(program, flags, input);
  }
  Json json(const std::vector<std::string>& flags) const {
    Ended done = succeeded(use(flags));
    return Json::parse(done.out);
  }

  /// The tested part: scores and measurements.
  const Json& test() const { return result.at("tests").at("test"); }
  /// Of all test examples together.
  Likelihood likelihood() const {
    Likelihood sum;
    const std::optional<RunResult> tested = load_result(directory);
    for (const TestedExample& example : tested->tests.front().examples) sum += example.likelihood;
    return sum;
  }

  /// The test part's sources and targets as files.
  void write_texts() const {
    std::ofstream sources(folder / "sources"), targets(folder / "targets");
    generate_translation(few_sentences)->visit(Part::test, [&](const TextPair& pair) {
      sources << pair.source << "\n";
      targets << pair.target << "\n";
    });
  }
};

Json without_times(Json test) {
  for (const char* time : {"decoding_seconds", "decoding_cpu_seconds"}) test.erase(time);
  return test;
}

double measurement(const Json& test, const std::string& name) {
  for (const Json& one : test.at("measurements"))
    if (one.at("name") == name) return one.at("value");
  return std::nan("");
}

std::vector<std::string> translating(const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags{"--data", few_sentences};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

const std::vector<std::string> recurrent{"--architecture", "rnn", "--embedding-dim", "6", "--select", "loss"};

std::vector<std::string> recurrent_with(const std::string& attention) {
  std::vector<std::string> flags = translating(recurrent);
  flags.insert(flags.end(), {"--attention", attention});
  return flags;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(trained_models)

BOOST_AUTO_TEST_CASE(a_model_tested_again_has_the_same_result) {
  TrainedRun run("translate", translating({"--spread", "1"}));
  const Json& training = run.result.at("training");
  BOOST_TEST(training.at("updates") == 4);
  BOOST_TEST(training.at("wall_seconds") >= training.at("update_seconds"));
  BOOST_TEST(training.at("cpu_seconds").get<double>() > 0);
  const Json again =
      run.json({"--evaluate", "test", "--json", "--spread", "1", "--out", (run.folder / "new").string()});
  const Json& test = again.at("tests").at("test");
  BOOST_TEST(without_times(test) == without_times(run.test()));
  BOOST_TEST(again.at("parameters") == run.result.at("parameters"));
  BOOST_TEST(!again.contains("training"));
  for (const char* file : {"hypotheses.txt", "references.txt", "examples.test.jsonl"})
    BOOST_TEST(contents(run.folder / "new" / file) == contents(run.folder / "run" / file));
  BOOST_TEST(load_json(run.folder / "new" / "result.json").at("tests").at("test") == test);
  // Other parts, other flags: a row for each.
  BOOST_TEST(run.json({"--evaluate", "dev", "--json"}).at("tests").at("dev").at("examples") == 10);
  Ended rows = run.use({"--evaluate", "test", "--compare", "greedy: --beam 1; global"});
  for (const char* part : {"\ngreedy ", "\nglobal ", " p ", " AER "}) BOOST_TEST(contains(rows.out, part), rows.out);
}

BOOST_AUTO_TEST_CASE(texts_are_cut_in_use_as_they_were_in_training) {
  TrainedRun run("translate", translating({"--max-length", "2"}));
  run.write_texts();
  const std::string sources = (run.folder / "sources").string(), targets = (run.folder / "targets").string();
  Ended decoded = run.use({"--decode", sources});
  BOOST_TEST(decoded.out == contents(run.folder / "run" / "hypotheses.txt"));
  const std::vector<std::string> forcing{"--decode", sources, "--force", targets, "--json"};
  BOOST_TEST(run.json(forcing).at("source_length").get<double>() <= 3.0);
  BOOST_TEST(run.json(forcing).at("tokens") > 3 * 12);  // what is forced is the whole text
}

BOOST_AUTO_TEST_CASE(blank_lines_stay_blank) {
  TrainedRun run("translate", translating());
  const std::string texts = (run.folder / "texts").string(), links = (run.folder / "links").string();
  std::ofstream(texts) << "\nfafi\n  \n\nfafi fafi\n\n";
  const Ended decoded = succeeded(run.use({"--decode", texts, "--alignments", links, "--min-length", "1"}));
  std::string blank;
  std::istringstream lines(decoded.out);
  for (std::string line; std::getline(lines, line);) blank += line.empty() ? 'b' : 't';
  BOOST_TEST(blank == "btbbtb");
  const std::string written = contents(links);
  BOOST_TEST(std::ranges::count(written, '\n') == 6);
  BOOST_TEST(written.starts_with("\n0-"), written);
  std::ofstream(texts) << "\n\n";
  BOOST_TEST(run.use({"--decode", texts}).out == "\n\n");
}

BOOST_AUTO_TEST_CASE(words_that_are_in_no_vocabulary_are_part_of_the_data) {
  Folder folder;
  auto write_test = [&](const std::string& word) { std::ofstream(folder / "test.yy") << "a b " << word << "\n"; };
  for (const char* name : {"train.xx", "train.yy", "dev.xx", "dev.yy", "test.xx"})
    for (int k = 0; k < 8; ++k) std::ofstream(folder / name, std::ios::app) << (name[1] == 'e' && k ? "" : "a b c\n");
  write_test("lion");
  const std::string out = (folder / "out").string();
  succeeded(ended("translate", tiny(out, {"--data", folder.path.string(), "--source", "xx", "--target", "yy"})));
  write_test("zebra");
  const std::string resumed = refusal_of(ended("translate", {"--resume", out}));
  BOOST_TEST(contains(resumed, "test has different texts or labels"), resumed);
}

BOOST_AUTO_TEST_CASE(the_directory_of_a_test_is_no_training_to_resume) {
  TrainedRun run("translate", translating());
  const std::string out = (run.folder / "tested").string();
  BOOST_TEST(run.use({"--evaluate", "test", "--out", out}).status == 0);
  BOOST_TEST(refusal_of(ended("translate", {"--resume", out})) ==
             "translate: " + out + ": has the results of a test, and no training that could continue\n");
}

BOOST_AUTO_TEST_CASE(a_text_without_positions_is_named_behind_those_before_it) {
  TrainedRun run("translate", translating({"--positions", "learned", "--max-positions", "16"}));
  const std::string texts = (run.folder / "texts").string(), few = (run.folder / "few").string();
  std::string many;
  for (int k = 0; k < 20; ++k) many += "fafi ";
  std::ofstream(texts) << "fafi\nfafi\n" << many << "\n";
  std::ofstream(few) << "a\nb\nc\n";
  Ended decoded = run.use({"--decode", texts});
  BOOST_TEST(decoded.status == 2);
  BOOST_TEST(std::ranges::count(decoded.out, '\n') == 2);
  BOOST_TEST(decoded.err == "translate: " + texts +
                                ":3: 22 tokens with </s> and padding, --max-positions is 16; set "
                                "--max-length to cut longer texts\n");
  BOOST_TEST(run.use({"--decode", texts, "--max-length", "15"}).status == 0);
  BOOST_TEST(refusal_of(run.use({"--decode", few, "--force", texts})) ==
             "translate: " + texts + ":3: 21 tokens with </s>, --max-positions is 16\n");
}

BOOST_AUTO_TEST_CASE(a_run_that_began_with_another_model_is_used_without_it_and_from_anywhere) {
  TrainedRun first("translate", translating({"--select", "loss"}));
  Folder folder;
  const std::string second = (folder / "second").string();
  auto flags = tiny(second, {"--longest", "12", "--init", std::filesystem::relative(first.directory).string()});
  flags.insert(flags.begin(), {"--data", few_sentences});
  succeeded(ended("translate", flags));
  const std::filesystem::path init = load_json(folder / "second" / "config.json").at("init").get<std::string>();
  BOOST_TEST(init.is_absolute());
  std::filesystem::remove_all(first.directory);
  for (const std::vector<std::string>& use :
       std::vector<std::vector<std::string>>{{"--resume", second}, {"--model", second, "--evaluate", "test"}}) {
    succeeded(ended("translate", use));
  }
}

BOOST_AUTO_TEST_CASE(a_run_does_not_begin_with_a_model_of_other_tokens) {
  Folder folder;
  auto data = [&](const std::string& name, const std::string& words) {
    std::filesystem::create_directory(folder / name);
    for (const char* set : {"train", "dev", "test"})
      for (const char* side : {"xx", "yy"}) std::ofstream(folder / name / fmt::format("{}.{}", set, side)) << words;
    return std::vector<std::string>{"--data", (folder / name).string(), "--source", "xx", "--target", "yy"};
  };
  TrainedRun first("translate", data("a", "one two three\n"));
  auto begun = [&](const std::string& out, std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--init", first.directory});
    return ended("translate", tiny((folder / out).string(), flags));
  };
  succeeded(begun("same", data("b", "two three one\n")));
  Ended other = begun("other", data("c", "uno two three\n"));  // as many
  BOOST_TEST(other.status == 2);
  BOOST_TEST(other.err == "translate: --init " + first.directory +
                              ": its vocabulary (7 words) differs from that of these data (7 words); --vocabulary " +
                              first.directory + " takes it\n");
  BOOST_TEST(!std::filesystem::exists(folder / "other"));
  const Ended with = succeeded(begun("with", joined(data("d", "uno two three\n"), {"--vocabulary", first.directory})));
  BOOST_TEST(load_tokenizer(folder / "with")->encode("uno two three") ==
             load_tokenizer(first.directory)->encode("uno two three"));
}

BOOST_AUTO_TEST_CASE(a_test_stops_at_the_next_step) {
  int status = status_in_child([] {
    if (!std::freopen("/dev/null", "w", stderr)) return 99;
    SequenceOptions options = small_options();
    const PairData data = small_data(options, Part::test);
    auto model = small_model(options, data.tokenizers);
    InterruptGuard guard;
    int steps = 0;
    options.beam.beam.max_length = 10;
    options.beam.beam.min_length = 10;
    options.beam.beam.observe = [&](const auto&, auto) {
      if (++steps == 1) std::raise(SIGTERM);
    };
    options.metrics = "bleu";
    try {
      test_model(*model, data.tests.front(), data.tokenizers, options, "stopped");
    } catch (const Interrupted& stop) {
      return steps == 1 && stop.what() == std::string("stopped") ? 0 : 1;
    }
    return 2;
  });
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(other_data_need_no_training_set) {
  TrainedRun run("translate", translating());
  run.write_texts();
  std::filesystem::create_directory(run.folder / "data");
  std::filesystem::rename(run.folder / "sources", run.folder / "data" / "test.xx");
  std::filesystem::rename(run.folder / "targets", run.folder / "data" / "test.yy");
  const std::string data = (run.folder / "data").string();
  Json found = run.json({"--evaluate", "test", "--json", "--data", data, "--source", "xx", "--target", "yy"})
                   .at("tests")
                   .at("test");
  Json expected = without_times(run.test());
  expected.erase("measurements");  // these files have no gold links
  BOOST_TEST(without_times(found) == expected);
  Ended dev = run.use({"--evaluate", "dev", "--data", data, "--source", "xx", "--target", "yy"});
  BOOST_TEST(dev.status == 2);
  BOOST_TEST(contains(dev.err, "has neither a dev set nor a training set"), dev.err);
}

BOOST_AUTO_TEST_CASE(forced_texts_have_the_likelihood_of_the_test) {
  TrainedRun run("translate", translating());
  run.write_texts();
  const std::string sources = (run.folder / "sources").string(), targets = (run.folder / "targets").string();
  Ended forced = succeeded(run.use({"--decode", sources, "--force", targets, "--decode-sentences", "5"}));
  std::istringstream lines(forced.out);
  double sum = 0, log_probability = 0;
  std::int64_t all_tokens = 0, tokens = 0;
  while (lines >> log_probability >> tokens) sum += log_probability, all_tokens += tokens;
  BOOST_TEST(-sum == run.likelihood().negative_log, boost::test_tools::tolerance(1e-4));
  BOOST_TEST(all_tokens == run.likelihood().tokens);
  Json total = run.json({"--decode", sources, "--force", targets, "--json"});
  BOOST_TEST(total.at("perplexity").get<double>() == run.test().at("scores").at("perplexity").get<double>(),
             boost::test_tools::tolerance(1e-4));
  BOOST_TEST(total.at("window") == run.test().at("source_length"));  // global attention scores everything
  std::ofstream(run.folder / "targets", std::ios::app) << "one more\n";
  const std::string unpaired = refusal_of(run.use({"--decode", sources, "--force", targets}));
  BOOST_TEST(contains(unpaired, "targets:13: a line without a partner: " + sources + " has 12 lines"), unpaired);
}

BOOST_AUTO_TEST_CASE(windows_are_what_was_scored) {
  const PairData data = small_data(small_options(), Part::test);
  const EncodedPairs& pairs = data.tests.front().pairs;
  BeamFlags flags;
  flags.beam.max_length = 9;
  double whole = 0, near = 0;
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const std::int64_t length = pairs.source.lengths()[k], steps = pairs.target.lengths()[k] + 1;
    double sum = 0;  // one position to each side of the step's own, or of the last
    for (std::int64_t t = 0; t < steps; ++t) {
      const std::int64_t p = std::min(t, length - 1);
      sum += double(std::min(p + 1, length - 1) - std::max<std::int64_t>(p - 1, 0) + 1);
    }
    whole += double(length) / double(pairs.size());
    near += sum / double(steps * std::int64_t(pairs.size()));
  }
  auto model_of = [&](const char* attention) { return small_model(small_options(attention), data.tokenizers); };
  auto global = model_of("classic(additive)"), flexible = model_of("classic(additive + flexible)"),
       local = model_of("classic(general + local_m(half_width=1))"),
       narrow = model_of("classic(additive + flexible(threshold=0.1))"),
       heads = model_of("average(general + local_m(half_width=1), general)"),
       second = model_of("multi_head(heads(global*1, local_m(half_width=1)*1), heads=2)"),
       each = model_of("multi_head(heads(local_m(half_width=1)*1, local_m(half_width=1)*1), heads=2)");
  BOOST_TEST(!has_source_windows(*global));
  for (auto* model : {&flexible, &local, &narrow, &heads, &second, &each}) BOOST_TEST(has_source_windows(**model));
  auto span = [&](auto& model, bool forced) { return source_span(*model, pairs, flags, forced).average; };
  for (bool forced : {false, true}) {
    BOOST_TEST(span(global, forced) == whole, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(span(flexible, forced) == whole, boost::test_tools::tolerance(1e-12));
    const double narrowed = span(narrow, forced);
    BOOST_TEST((1 <= narrowed && narrowed < whole - 0.5), narrowed);
  }
  for (auto* model : {&local, &each}) BOOST_TEST(span(*model, true) == near, boost::test_tools::tolerance(1e-12));
  for (auto* model : {&heads, &second})
    BOOST_TEST(span(*model, true) == (near + whole) / 2, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(alignments_are_those_of_the_attention) {
  // Its one head sees at each step t the source's word t alone.
  TrainedRun run("translate", recurrent_with("classic(general + local_m(half_width=0))"));
  run.write_texts();
  std::vector<std::set<Link>> all;
  std::vector<GoldAlignment> gold;
  std::string diagonals;
  generate_translation(few_sentences)->visit(Part::test, [&](const TextPair& pair) {
    std::set<Link>& diagonal = all.emplace_back();
    for (std::int64_t t = 0; t < std::ssize(split_words(pair.target)); ++t) diagonal.insert({t, t});
    gold.push_back(parse_alignment(pair.alignment));
    diagonals += alignment_text(diagonal) + "\n";
  });
  const double expected = alignment_error(all, gold).value();
  BOOST_TEST(measurement(run.test(), "AER") == expected, boost::test_tools::tolerance(1e-9));
  BOOST_TEST((0.05 < expected && expected < 0.95));
  const std::string links = (run.folder / "links").string(), sources = (run.folder / "sources").string();
  succeeded(run.use({"--decode", sources, "--force", (run.folder / "targets").string(), "--alignments", links}));
  BOOST_TEST(contents(links) == diagonals);
  Ended decoded = succeeded(run.use({"--decode", sources, "--alignments", links, "--n-best", "2"}));
  std::istringstream texts(decoded.out), lines(contents(links));
  for (std::string text, line; std::getline(texts, text);) {
    if (text.empty()) continue;
    BOOST_TEST_REQUIRE(bool(std::getline(lines, line)));
    for (const Link& link : parse_alignment(line).sure) BOOST_TEST(link.source == link.target);
  }
}

BOOST_AUTO_TEST_CASE(attention_within_a_distance_is_that_of_each_stack) {
  TrainedRun run("translate", translating({"--attention", "sliding(left=1,right=1)", "--decoder-attention",
                                           "sliding(left=2,right=0)", "--spread", "1,2", "--select", "loss"}));
  const Json within = run.test().at("attention_within");
  BOOST_TEST(within.size() == 3u);
  auto percent = [&](const char* attention, const char* distance) {
    return within.at(attention).at(distance).get<double>();
  };
  for (const char* distance : {"1", "2"})
    BOOST_TEST(percent("encoder.0.attention", distance) == 100, boost::test_tools::tolerance(1e-4));
  BOOST_TEST(percent("decoder.0.attention", "2") == 100, boost::test_tools::tolerance(1e-4));
  for (const char* partly : {"decoder.0.attention", "decoder.0.cross"})
    BOOST_TEST((30 < percent(partly, "1") && percent(partly, "1") < 99.9), within.dump());
  BOOST_TEST(percent("decoder.0.cross", "1") < percent("decoder.0.cross", "2"));
}

BOOST_AUTO_TEST_CASE(a_language_model_is_tested_by_words_and_characters_and_makes_up_texts) {
  const std::vector<std::string> data{"--data", "generated:train=60,dev=10,test=12,length=4-9,words=10"};
  TrainedRun run("language_model", data);
  const Likelihood test = run.likelihood();
  std::int64_t words = 0, characters = 0;
  generate_lines(data[1])->visit(Part::test, [&](const TextPair& pair) {
    words += std::ssize(split_words(pair.target)) + 1;
    characters += std::ssize(pair.target) + 1;
  });
  BOOST_TEST(test.words == words);
  BOOST_TEST(test.characters == characters);
  const double nats = test.negative_log;
  const Json& scores = run.test().at("scores");
  BOOST_TEST(scores.at("per word").get<double>() == std::exp(nats / double(words)), boost::test_tools::tolerance(1e-9));
  BOOST_TEST(scores.at("bits/char").get<double>() == nats / double(characters) / std::log(2.0),
             boost::test_tools::tolerance(1e-9));
  // Texts that are cut have no words and characters that their tokens would be all of; blocks are the same texts.
  auto tested = [&](const std::vector<std::string>& flags) {
    return run.json(joined({"--evaluate", "test", "--json"}, flags)).at("tests").at("test");
  };
  BOOST_TEST(!tested({"--max-length", "5"}).at("scores").contains("per word"));
  const std::string out = (run.folder / "blocks").string();
  BOOST_TEST(tested({"--block", "40", "--out", out}).at("examples").get<int>() < 6);
  Likelihood blocks;
  const std::optional<RunResult> of_blocks = load_result(out);
  std::string text_of_blocks, text_of_lines;
  for (const TestedExample& example : of_blocks->tests.front().examples) {
    blocks += example.likelihood;
    text_of_blocks += example.reference + " ";
    BOOST_TEST(example.likelihood.words > 0);  // each block has its own, so that blocks can be drawn at random
  }
  generate_lines(data[1])->visit(Part::test, [&](const TextPair& pair) { text_of_lines += pair.target + " "; });
  BOOST_TEST(text_of_blocks == text_of_lines);
  BOOST_TEST(blocks.words == test.words);
  BOOST_TEST(blocks.characters == test.characters);
  BOOST_TEST(blocks.tokens == test.tokens);

  auto sampled = [&](std::vector<std::string> flags, const std::string& input = "") {
    flags.insert(flags.end(), {"--longest", "8"});
    Ended done = succeeded(run.use(flags, input));
    return done.out;
  };
  std::string prompt;
  generate_lines(data[1])->visit(Part::train, [&](const TextPair& pair) { prompt = pair.target.substr(0, 4); });
  const std::string three = sampled({"--sample", "3", "--prompt", prompt});
  BOOST_TEST(std::ranges::count(three, '\n') == 3);
  std::istringstream lines(three);
  for (std::string line; std::getline(lines, line);) {
    BOOST_TEST(line.starts_with(prompt), line);
    BOOST_TEST(split_words(line).size() <= 8u);
    BOOST_TEST(!contains(line, "<unk>"));
  }
  BOOST_TEST(three.starts_with(sampled({"--sample", "2", "--prompt", prompt})));
  BOOST_TEST(sampled({"--sample", "3", "--prompt", "-"}, prompt + "\n") == three);
  BOOST_TEST(sampled({"--sample", "3", "--prompt", prompt, "--seed", "2"}) != three);
  const std::string second_hundred = sampled({"--sample", "102"});  // not that of the next seed
  BOOST_TEST(!second_hundred.ends_with(sampled({"--sample", "2", "--seed", "2"})));
  const Ended unknown = run.use({"--sample", "1", "--longest", "8", "--prompt", prompt + " Straße"});
  BOOST_TEST(contains(unknown.err, "--prompt: read as <unk>, because the run's vocabulary lacks them: Straße\n"),
             unknown.err);
  BOOST_TEST(refusal_of(run.use({"--sample", "1", "--min-length", "9", "--longest", "8"})) ==
             "language_model: --min-length 9: must be at most --longest 8\n");
  // The most probable token alone is drawn, or the same one of any draw.
  const std::string greedy = sampled({"--sample", "2", "--top-k", "1"});
  BOOST_TEST(greedy == sampled({"--sample", "2", "--top-p", "1e-6", "--seed", "3"}));
  BOOST_TEST(greedy.substr(0, greedy.find('\n')) + "\n" == greedy.substr(greedy.find('\n') + 1));
}

BOOST_AUTO_TEST_CASE(what_has_no_text_is_refused) {
  Folder folder;
  std::ofstream(folder / "empty") << "";
  const std::string empty = (folder / "empty").string(), out = (folder / "out").string();
  const std::string untrained = refusal_of(ended("language_model", tiny(out, {"--data", empty})));
  BOOST_TEST(contains(untrained, "there is no text to train on"), untrained);
  BOOST_TEST(!std::filesystem::exists(folder / "out"));
  TrainedRun run("translate", translating({"--select", "loss"}));
  BOOST_TEST(refusal_of(run.use({"--decode", empty, "--force", empty})) ==
             "translate: " + empty + ": the file has no lines\n");
  BOOST_TEST(run.use({"--decode", empty}).status == 0);
}

BOOST_AUTO_TEST_CASE(flags_without_the_one_they_belong_to_are_refused) {
  auto refused = [](const std::string& program, const std::vector<std::string>& flags, const std::string& says) {
    const std::string done = refusal_of(ended(program, flags));
    BOOST_TEST(done.starts_with(program + ": " + says), done);
  };
  Folder folder;
  std::ofstream(folder / "config.json") << R"({"program": "translate"})";
  const std::string model = folder.path.string();
  refused("translate", {"--evaluate", "test"}, "--evaluate: needs --model");
  refused("translate", {"--force", "x"}, "--force: only with --decode");
  refused("translate", {"--model", model, "--decode", "x", "--json"}, "--json: only with --evaluate or --force");
  refused("translate", {"--model", model, "--decode", "x", "--evaluate", "dev"},
          "--evaluate and --decode: give only one");
  refused("translate", {"--model", model, "--decode", "x"},
          "--model " + model + ": the directory has no trained model");
  refused("translate", {"--model", model, "--decode", "x", "--out", "y"}, "--out: only with training or --evaluate");
  refused("translate", {"--model", model, "--evaluate", "tset"}, "--evaluate: 'tset' is none of train, dev, test");
  refused("translate", {"--data", model}, "--source is missing");
  refused("translate", {"--accumulate", "4097"}, "--accumulate: 4097 is outside [1, 4096]");
  refused("translate", {"--data", model, "--target", "de"}, "--source is missing");
  refused("translate", {"--model-dim", "65536", "--layers", "1000", "--out", model + "/new"},
          "--model-dim 65536, --feed-forward-dim 256, --layers 1000: ");
  BOOST_TEST(!std::filesystem::exists(folder / "new"));
  refused("language_model", {"--temperature", "2"}, "--temperature: only with --sample");
  for (const char* program : {"translate", "sentiment"})
    refused(program, {"--average-kept", "2"}, "--average-kept: only with --model");
  refused("language_model", {"--sample", "2"}, "--sample: needs --model");
}

BOOST_AUTO_TEST_CASE(what_has_no_effect_on_a_trained_model_is_warned_of) {
  const Folder folder;
  const std::string text = folder.write("a.txt", "a b\nc d\n").string();
  TrainedRun run("translate", translating({}));
  for (const auto& [flag, value] : {std::pair("--updates", "9"), {"--seeds", "3"}, {"--compare", "a: --beam {1,2}"}})
    BOOST_TEST(contains(run.use({"--decode", text, flag, value}).err,
                        fmt::format("without effect: {}; nothing is trained", flag)));
  BOOST_TEST(
      contains(run.use({"--evaluate", "test", "--rate", "1"}).err, "without effect: --rate; nothing is trained"));
  BOOST_TEST(contains(run.use({"--evaluate", "test", "--vocabulary-size", "100"}).err,
                      "without effect: --vocabulary-size; nothing is trained"));
  BOOST_TEST(!contains(run.use({"--evaluate", "test", "--compare", "a: --beam {1,2}"}).err, "without effect"));
  BOOST_TEST(contains(run.use({"--evaluate", "test", "--test-set", "x"}).err,
                      "without effect: --test-set; the data are generated, and have no files"));
  BOOST_TEST(contains(refusal_of(run.use({"--decode", text, "--alignments", text})),
                      "--alignments " + text + ": is the file of --decode; it would be replaced"));
  BOOST_TEST(contents(text) == "a b\nc d\n");
}

BOOST_AUTO_TEST_CASE(what_has_no_effect_beside_a_known_vocabulary_is_warned_of) {
  const Folder folder;
  TrainedRun run("translate", translating({}));
  const auto warning = [&](const std::string& out, std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--vocabulary", run.directory});
    return succeeded(ended("translate", tiny((folder / out).string(), translating(flags)))).err;
  };
  BOOST_TEST(contains(warning("a", {"--units", "bpe", "--min-count", "1"}),
                      "without effect: --units, --min-count; --vocabulary "));
  BOOST_TEST(!contains(warning("b", {"--min-count", "2"}), "without effect"));
}

BOOST_AUTO_TEST_CASE(the_state_of_a_training_is_no_model_to_begin_with) {
  const Folder folder;
  TrainedRun run("translate", translating({}));
  const std::string refused = refusal_of(ended(
      "translate", tiny((folder / "a").string(), translating({"--init", run.directory + "/checkpoint.safetensors"}))));
  BOOST_TEST(contains(refused, "the model's parameters are in " + run.directory + "/best.safetensors"), refused);
}

BOOST_AUTO_TEST_SUITE_END()
