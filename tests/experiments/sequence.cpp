// Sequence models as the programs train them.
#include <boost/test/unit_test.hpp>

#include "experiments/support/models/sequence_testing.h"
#include "experiments/support/program/run_log.h"
#include "tests/experiments/markup.h"
#include "tests/experiments/programs.h"
#include "tests/experiments/small_sequences.h"

using namespace fovea;

namespace {

Ended translate(std::vector<std::string> flags) {
  if (std::ranges::find(flags, "--model") == flags.end())
    flags.insert(flags.begin(), {"--data", few_sentences, "--longest", "12"});
  return ended("translate", flags);
}

/// The tokens of the pairs' targets, each with </s>, one after the other.
std::vector<std::int32_t> all_tokens(const EncodedPairs& pairs) {
  std::vector<std::int32_t> all;
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    all.insert(all.end(), pairs.target[k].begin(), pairs.target[k].end());
    all.push_back(end_id);
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sequence_experiments)

BOOST_AUTO_TEST_CASE(a_loss_does_not_depend_on_the_batch) {
  const SequenceOptions options = small_options();
  BatchOptions single = options.batches;
  single.sentences = 1;
  const PairData data = small_data(options, Part::train);
  const EncodedPairs& pairs = data.tests.front().pairs;
  auto model = small_model(options, data.tokenizers);
  std::vector<Likelihood> together = likelihoods(*model, pairs, options.batches),
                          apart = likelihoods(*model, pairs, single);
  std::int64_t tokens = 0;
  for (std::size_t k = 0; k < together.size(); ++k) {
    BOOST_TEST(together[k].negative_log == apart[k].negative_log, boost::test_tools::tolerance(1e-4));
    BOOST_TEST(together[k].tokens == pairs.target.lengths()[k] + 1);
    tokens += together[k].tokens;
  }
  BOOST_TEST(total(together).tokens == tokens);
}

BOOST_AUTO_TEST_CASE(the_loss_of_an_update_is_the_mean_of_its_tokens_and_gates_lower_it) {
  Folder folder;
  // the first update, whose micro-batches of three sentences are all pairs
  auto first_line = [&](const std::string& attention, const std::vector<std::string>& more) {
    static int runs = 0;
    const std::string out = (folder / std::to_string(runs++)).string();
    succeeded(translate(
        joined(tiny(out, {"--architecture", "rnn", "--embedding-dim", "6", "--attention", attention, "--dropout", "0",
                          "--select", "loss", "--updates", "1", "--batch-sentences", "3", "--accumulate", "20"}),
               more)));
    return read_log(std::filesystem::path(out) / "log.jsonl").front();
  };
  const std::string plain = "classic(additive + flexible)", gated = "classic(additive + flexible(beta=0.25))";
  auto loss = [](const Json& line) { return line.at("loss").get<double>(); };
  auto unsmoothed = [](const Json& line) { return line.at("unsmoothed_loss").get<double>(); };
  const Json by_token = first_line(plain, {}), by_sentence = first_line(plain, {"--loss-per", "sentence"});
  BOOST_TEST(loss(by_token) == unsmoothed(by_token), boost::test_tools::tolerance(1e-7));
  BOOST_TEST((2 < loss(by_token) && loss(by_token) < 6), loss(by_token));
  const double tokens_per_sentence = loss(by_sentence) / loss(by_token);
  BOOST_TEST((2 < tokens_per_sentence && tokens_per_sentence < 20), tokens_per_sentence);
  BOOST_TEST(
      by_sentence.at("gradient_norm").get<double>() == by_token.at("gradient_norm").get<double>() * tokens_per_sentence,
      boost::test_tools::tolerance(1e-4));

  const Json gated_by_token = first_line(gated, {}), gated_by_sentence = first_line(gated, {"--loss-per", "sentence"});
  BOOST_TEST(unsmoothed(gated_by_token) == loss(by_token), boost::test_tools::tolerance(1e-7));
  BOOST_TEST(unsmoothed(gated_by_sentence) == loss(by_sentence), boost::test_tools::tolerance(1e-7));
  const double mean_gate = (loss(by_sentence) - loss(gated_by_sentence)) / 0.25;
  BOOST_TEST((mean_gate > 0.05 && mean_gate < 0.25), mean_gate);  // near sigmoid(-2) at the start
  // Micro-batches of three sentences: their mean gates, weighted by their tokens.
  BOOST_TEST((loss(by_token) - loss(gated_by_token)) / 0.25 == mean_gate, boost::test_tools::tolerance(0.2));

  const Json smooth = first_line(plain, {"--label-smoothing", "0.2"});
  BOOST_TEST(unsmoothed(smooth) == loss(by_token), boost::test_tools::tolerance(1e-6));
  BOOST_TEST(std::abs(loss(smooth) - loss(by_token)) > 1e-4);
}

BOOST_AUTO_TEST_CASE(lines_make_blocks) {
  PairDataOptions options;
  options.generate = generate_lines;
  options.has_source = false;
  options.corpus.data = "generated:train=40,dev=5,test=5,length=5-9";
  options.text.min_count = 1;
  auto data = [&] {
    return PairData(options, train_tokenizers(*options.open(true), options.text), Part::train, false);
  };
  const PairData apart = data();
  options.text.block = 30;
  const PairData blocks = data();
  const EncodedPairs &lines = apart.tests.front().pairs, &joined = blocks.tests.front().pairs;
  BOOST_TEST(all_tokens(lines) == all_tokens(joined), boost::test_tools::per_element());
  BOOST_TEST(lines.size() == 40u);
  BOOST_TEST(joined.size() < 20u);
  for (std::int64_t length : joined.target.lengths()) BOOST_TEST(length <= 30);
}

BOOST_AUTO_TEST_CASE(a_comparison_trains_tests_and_leaves_runs_that_decode) {
  Folder folder;
  std::string out = (folder / "out").string();
  Ended ended = succeeded(translate(tiny(
      out, {"--compare", "global; far: --cross-attention gaussian --dropout 0.2; --architecture rnn --model-dim 6"})));
  for (const char* row : {"\nglobal ", "\nfar ", "\n--architecture rnn --model-dim 6 "})
    BOOST_TEST(contains(ended.out, row), ended.out);
  std::string page = contents(folder / "out" / "report.html");
  BOOST_TEST(markup_error(page) == "");
  BOOST_TEST(count(page, "<path class=\"curve") == 12u);  // the development set's and the loss, of three; and legends
  Json far = load_json(folder / "out" / "far-seed-1" / "config.json");
  BOOST_TEST(far.at("cross-attention") == "gaussian");
  BOOST_TEST(far.at("attention") == "");
  BOOST_TEST(far.at("compare") == "");
  std::ofstream(folder / "text") << "loru tira\nfafi\n";
  Ended decoded =
      succeeded(translate({"--model", out + "/far-seed-1", "--decode", (folder / "text").string(), "--n-best", "2"}));
  BOOST_TEST(std::ranges::count(decoded.out, '\t') == 4, decoded.out);
  BOOST_TEST(translate({"--model", out + "/far-seed-1"}).status == 2);  // and no training of its own
}

BOOST_AUTO_TEST_CASE(weights_of_each_dimension_are_drawn_too) {
  Folder folder;
  succeeded(translate(tiny((folder / "out").string(), {"--attention", "fine_grained"})));
  BOOST_TEST(std::filesystem::exists(folder / "out" / "result.json"));
}

BOOST_AUTO_TEST_CASE(seeds_are_runs_of_their_own) {
  Folder folder;
  Ended ended = succeeded(translate(tiny((folder / "out").string(), {"--seed", "7", "--seeds", "2"})));
  BOOST_TEST(contains(ended.out, " ± "), ended.out);
  auto run = [&](const char* name) { return folder / "out" / name; };
  BOOST_TEST(load_json(run("model-seed-7") / "config.json").at("seed") == 7);
  BOOST_TEST(load_json(run("model-seed-8") / "config.json").at("seed") == 8);
  BOOST_TEST(contents(run("model-seed-7") / "best.safetensors") != contents(run("model-seed-8") / "best.safetensors"));
  // Each is what a run of its seed alone would be.
  succeeded(translate(tiny((folder / "alone").string(), {"--seed", "8"})));
  BOOST_TEST(contents(folder / "alone" / "best.safetensors") == contents(run("model-seed-8") / "best.safetensors"));
}

BOOST_AUTO_TEST_CASE(several_test_sets_are_tested_one_after_the_other) {
  Folder folder;
  std::filesystem::create_directory(folder / "data");
  auto write = [&](const std::string& name, int lines, const std::string& words) {
    for (const char* side : {"xx", "yy"}) {
      std::ofstream file(folder / "data" / (name + "." + side));
      for (int k = 0; k < lines; ++k) file << words << " " << k % 3 << "\n";
    }
  };
  write("train", 30, "one two");
  write("dev", 4, "two one");
  write("news", 5, "one one two");
  write("talks", 7, "two two one");
  const std::vector<std::string> data{
      "--data", (folder / "data").string(), "--source", "xx", "--target", "yy", "--longest", "6"};
  const std::string out = (folder / "out").string();
  const Ended trained = succeeded(ended("translate", tiny(out, joined(data, {"--test-set", "news,talks"}))));
  for (const char* part : {"news BLEU ", "talks BLEU ", "news: 5 examples; talks: 7 examples"})
    BOOST_TEST(contains(trained.out, part), trained.out);
  const Json tests = load_json(folder / "out" / "result.json").at("tests");
  BOOST_TEST(tests.size() == 2u);
  BOOST_TEST(tests.at("news").at("examples") == 5);
  BOOST_TEST(tests.at("talks").at("examples") == 7);
  for (const char* file :
       {"examples.news.jsonl", "examples.talks.jsonl", "hypotheses.news.txt", "references.talks.txt"})
    BOOST_TEST(std::filesystem::exists(folder / "out" / file), file);
  BOOST_TEST(!std::filesystem::exists(folder / "out" / "hypotheses.txt"));
  const std::string page = contents(folder / "out" / "report.html");
  for (const char* part : {"the test set news.", "the test set talks."}) BOOST_TEST(contains(page, part), part);
  // Each is what it would be alone.
  for (const char* set : {"news", "talks"}) {
    const Ended alone =
        succeeded(ended("translate", {"--model", out, "--evaluate", "test", "--test-set", set, "--json"}));
    BOOST_TEST((Json::parse(alone.out).at("tests").at(set).at("scores") == tests.at(set).at("scores")), alone.out);
  }
  const std::string missing =
      refusal_of(ended("translate", tiny((folder / "no").string(), joined(data, {"--test-set", "news,tlks"}))));
  BOOST_TEST(contains(missing, "tlks"), missing);
  for (const char* sets : {"news,", ",news", "news,news"}) {
    const Ended refused = ended("translate", tiny((folder / "no").string(), joined(data, {"--test-set", sets})));
    BOOST_TEST(refused.err ==
               fmt::format("translate: --test-set '{}': expected different names, separated by commas\n", sets));
  }
  BOOST_TEST(!std::filesystem::exists(folder / "no"));
}

BOOST_AUTO_TEST_CASE(parameters_are_counted_without_data) {
  const Ended table = succeeded(ended("translate", {"--parameters", "--vocabulary-size", "100", "--layers", "1"}));
  for (const char* part : {"encoder.0.attention", "decoder.0.cross", "total"}) BOOST_TEST(contains(table.out, part));
  const Ended rows = ended("translate", {"--parameters", "--vocabulary-size", "100", "--layers", "1", "--compare",
                                         "plain: --layers 1; fixed: --attention gaussian(window=head,heads=1)"});
  // W_p and b_p [128, 128], U_p and c [128, 1], z [1]
  BOOST_TEST(contains(rows.out, fmt::format(" {}\n", 128 * 128 + 128 + 128 + 1 + 1)), rows.out);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_configured_by_another_one_is_the_same) {
  Folder folder;
  const std::string first = (folder / "first").string(), second = (folder / "second").string();
  succeeded(translate(tiny(first, {"--dropout", "0.2", "--select", "loss"})));
  succeeded(ended("translate", {"--config", first, "--out", second}));
  for (const char* file : {"best.safetensors", "log.jsonl", "examples.test.jsonl", "config.json", "hypotheses.txt"})
    BOOST_TEST(contents(folder / "first" / file) == contents(folder / "second" / file), file);
}

BOOST_AUTO_TEST_CASE(what_is_refused_names_its_flag) {
  Folder folder;
  std::string out = (folder / "out").string();
  auto refused = [&](std::vector<std::string> flags, const std::string& says) {
    const std::string ended = refusal_of(translate(tiny(out, std::move(flags))));
    BOOST_TEST(ended.starts_with("translate: " + says), ended);
    BOOST_TEST(!std::filesystem::exists(folder / "out"));  // whatever some row is refused for, none is trained
  };
  refused({"--heads", "3"}, "--heads 3: must divide --model-dim 8");
  refused({"--cross-attention", "relative"}, "--cross-attention: relative: queries and keys must be tokens of one");
  refused({"--compare", "global; wide: --data x"}, "--compare: 'wide': --data: cannot differ between the rows");
  refused({"--compare", "global; other: --metrics rouge"}, "--compare: 'other': --metrics: cannot differ between");
  refused({"--compare", "a: --heads 2; a: --heads 4"}, "--compare: there are two rows 'a'; rows need different names");
  refused({"--compare", "gausian"}, "--compare: 'gausian': --attention: 'gausian': no method 'gausian'");
  refused({"--compare", "both: --attention \"relative + gausian\" --heads 2"},
          "--compare: 'both': --attention: 'relative + gausian': no method 'gausian'");
  refused({"--metrics", "blue"}, "--metrics: ");
  refused({"--select", "blue"}, "--select: ");
  for (const char* metric : {"word-perplexity", "bits-per-character", "aer"}) {
    refused({"--select", metric}, "--select: ");
    refused({"--metrics", metric}, "--metrics: ");
  }
  refused({"--metrics", "perplexity"}, "--metrics: ");
  std::ofstream(folder / "own.json") << "{\"about\": \"mine\", \"model-dmi\": 8}";
  refused({"--preset", (folder / "own.json").string()},
          "--preset " + (folder / "own.json").string() + ": there is no option 'model-dmi'; did you mean 'model-dim'?");
  refused({"--decode", "x"}, "--decode: needs --model");
  refused({"--parameters"}, "--parameters: needs --vocabulary-size");
  refused({"--init", "/nowhere.safetensors"}, "--init /nowhere.safetensors: there is no such file");
  refused({"--min-length", "13"}, "--min-length 13: must be at most --longest 12");
  refused({"--positions", "learned", "--max-positions", "12"},
          "--longest 12: with <s>, these are more tokens than --max-positions 12");
  refused({"--positions", "learned", "--max-positions", "13", "--max-length", "20", "--length-multiple", "16"},
          "--max-positions 13: the longest text has 16 tokens with its padding");
  std::filesystem::create_directory(folder / "long");
  for (const char* name : {"train.xx", "train.yy", "dev.xx", "dev.yy", "test.xx", "test.yy"})
    for (int k = 0; k < 102; ++k) std::ofstream(folder / "long" / name, std::ios::app) << "word ";
  const std::vector<std::string> own{"--data", (folder / "long").string(), "--source", "xx", "--target", "yy"};
  refused(joined(own, {"--test-set", "test,test"}), "--test-set 'test,test': expected different names");
  refused(joined(own, {"--test-set", "test,"}), "--test-set 'test,': expected different names");
  refused({"--positions", "learned", "--max-positions", "104", "--data", (folder / "long").string(), "--source", "xx",
           "--target", "yy"},
          "--max-positions 104: the longest text has 114 tokens with its padding");  // 104 in training, 114 in decoding
  refused({"--no-joint-vocabulary"}, "--tied all: source and target need one vocabulary");
  refused({"--compare", "global; small: --batch-tokens 8"},
          "--compare: 'small': --batch-tokens 8: the longest text has ");
  std::ofstream(folder / "other.safetensors") << "no tensors";
  refused({"--compare", "global; on: --init " + (folder / "other.safetensors").string()}, "--compare: 'on': /");
}

BOOST_AUTO_TEST_SUITE_END()
