// Sequence models as the programs train, test and use them.
#include <fstream>

#include <boost/test/unit_test.hpp>

#include "tests/experiments/markup.h"
#include "tests/experiments/sequence_programs.h"

using namespace fovea;

namespace {

Ended translate(std::vector<std::string> flags) {
  if (std::find(flags.begin(), flags.end(), "--model") == flags.end())
    flags.insert(flags.begin(), {"--data", few_sentences, "--longest", "12"});
  return ended(translation(), flags);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sequence_experiments)

BOOST_AUTO_TEST_CASE(a_loss_does_not_depend_on_the_batch) {
  PairTextOptions text;
  text.text.min_count = 1;
  BatchOptions all, single;
  single.sentences = 1;
  SequenceData data = small_data(text, all);
  auto model = small_model(data.tokenizers, "classic(additive)");
  std::vector<Likelihood> together = likelihoods(*model, data.train, all),
                          apart = likelihoods(*model, data.train, single);
  std::int64_t tokens = 0;
  for (std::size_t k = 0; k < together.size(); ++k) {
    BOOST_TEST(together[k].negative_log == apart[k].negative_log, boost::test_tools::tolerance(1e-4));
    BOOST_TEST(together[k].tokens == data.train.target.lengths()[k] + 1);
    tokens += together[k].tokens;
  }
  BOOST_TEST(total(together).tokens == tokens);
}

BOOST_AUTO_TEST_CASE(the_loss_of_an_update_is_the_mean_of_its_tokens_and_gates_lower_it) {
  PairTextOptions text;
  text.text.min_count = 1;
  BatchOptions batches;
  batches.sentences = 3;
  batches.accumulate = 3;  // nine pairs: the whole part
  SequenceData data = small_data(text, batches);
  auto model = small_model(data.tokenizers, "classic(additive + flexible)");
  model->train(false);
  auto update = [&](const SequenceLossOptions& loss) {
    SequenceTask task(*model, data.train, batches, loss, 1, "score", [] { return 0.0; });
    double sum = 0;
    double divisor = task.next_update(0, [&](const Variable& part) { sum += part.item(); });
    return std::pair(sum, divisor);
  };
  SequenceLossOptions plain{.label_smoothing = 0};
  Likelihood expected = total(likelihoods(*model, data.train, batches));
  auto [sum, tokens] = update(plain);
  BOOST_TEST(tokens == static_cast<double>(expected.tokens));
  BOOST_TEST(sum == expected.negative_log, boost::test_tools::tolerance(1e-4));

  SequenceLossOptions gated{.label_smoothing = 0, .gate = 0.25};
  auto [by_token, same_tokens] = update(gated);
  gated.gate_norm = GateNorm::sentence;
  auto [by_sentence, sentences] = update(gated);
  BOOST_TEST(same_tokens == tokens);
  BOOST_TEST(sentences == 9.0);
  double mean_gate = (expected.negative_log - by_sentence) / (0.25 * 9);
  BOOST_TEST((mean_gate > 0.2 && mean_gate < 0.8));  // a sigmoid of small numbers
  // Micro-batches of three sentences: their mean gates, weighted by their tokens.
  BOOST_TEST((expected.negative_log - by_token) / (0.25 * tokens) == mean_gate, boost::test_tools::tolerance(0.2));
}

BOOST_AUTO_TEST_CASE(dropout_depends_on_the_number_of_the_update_and_not_on_the_updates_before_it) {
  PairTextOptions text;
  text.text.min_count = 1;
  BatchOptions batches;
  batches.sentences = 2;
  batches.accumulate = 2;
  SequenceData data = small_data(text, batches);
  auto model = small_model(data.tokenizers, "classic(additive)", 0.4);
  const SequenceLossOptions plain{.label_smoothing = 0};
  auto task = [&] { return SequenceTask(*model, data.train, batches, plain, 1, "score", [] { return 0.0; }); };
  auto losses = [&](SequenceTask& task, std::int64_t update) {
    std::vector<double> parts;
    task.next_update(update, [&](const Variable& part) { parts.push_back(part.item()); });
    return parts;
  };
  SequenceTask whole = task(), resumed = task(), other = task();
  for (std::int64_t update = 0; update < 3; ++update) losses(whole, update);
  resumed.seek(whole.place());
  other.seek(whole.place());
  const std::vector<double> expected = losses(whole, 3);
  BOOST_TEST(losses(resumed, 3) == expected, boost::test_tools::per_element());
  BOOST_TEST(losses(other, 4) != expected);
}

BOOST_AUTO_TEST_CASE(gates_need_flexible_attention) {
  PairTextOptions text;
  text.text.min_count = 1;
  BatchOptions batches;
  SequenceData data = small_data(text, batches);
  auto plain = small_model(data.tokenizers, "classic(additive)"),
       flexible = small_model(data.tokenizers, "classic(additive + flexible)");
  SequenceLossOptions gated{.gate = 0.1};
  BOOST_TEST(message_of([&] { gated.require_gates(*plain); }) ==
             "--gate 0.1: no attention of this model has a gate; flexible attention does");
  gated.require_gates(*flexible);
  SequenceLossOptions{}.require_gates(*plain);
}

BOOST_AUTO_TEST_CASE(lines_make_blocks) {
  auto lines = generate_lines("generated:train=40,dev=5,test=5,length=5-9");
  PairTextOptions text;
  text.text.min_count = 1;
  BatchOptions batches;
  SequenceData apart{train_tokenizers(*lines, text), {}, {}, {}, {}, {}}, joined{apart.tokenizers, {}, {}, {}, {}, {}};
  encode_parts(apart, *lines, {}, batches);
  encode_parts(joined, *lines, {.block = 30}, batches);
  std::vector<std::int32_t> all, blocks;
  auto append = [](std::vector<std::int32_t>& to, const TokenStore& store) {
    for (std::size_t k = 0; k < store.size(); ++k) {
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(store.lengths()[k]));
      store.read(k, tokens);
      to.insert(to.end(), tokens.begin(), tokens.end());
      to.push_back(end_id);
    }
  };
  append(all, apart.train.target);
  append(blocks, joined.train.target);
  BOOST_TEST(all == blocks, boost::test_tools::per_element());
  BOOST_TEST(apart.train.size() == 40u);
  BOOST_TEST(joined.train.size() < 20u);
  for (std::int64_t length : joined.train.target.lengths()) BOOST_TEST(length <= 30);
}

BOOST_AUTO_TEST_CASE(a_comparison_trains_tests_and_leaves_runs_that_decode) {
  Folder folder;
  std::string out = (folder / "out").string();
  Ended ended = translate(tiny(
      out, {"--compare", "global; far: --cross-attention gaussian --dropout 0.2; --architecture rnn --model-dim 6"}));
  BOOST_TEST(ended.status == 0, ended.err);
  for (const char* row : {"\nglobal ", "\nfar ", "\n--architecture rnn --model-dim 6 "})
    BOOST_TEST(contains(ended.out, row), ended.out);
  std::string page = contents(folder / "out" / "report.html");
  BOOST_TEST(markup_error(page) == "");
  BOOST_TEST(count(page, "<path class=\"curve") == 6u);  // the development set's and the loss, of three
  Json far = load_json(folder / "out" / "far-seed-1" / "config.json");
  BOOST_TEST(far.at("cross-attention") == "gaussian");
  BOOST_TEST(far.at("attention") == "");
  BOOST_TEST(far.at("compare") == "");
  std::ofstream(folder / "text") << "loru tira\nfafi\n";
  Ended decoded = translate({"--model", out + "/far-seed-1", "--decode", (folder / "text").string(), "--n-best", "2"});
  BOOST_TEST(decoded.status == 0, decoded.err);
  BOOST_TEST(std::count(decoded.out.begin(), decoded.out.end(), '\t') == 4, decoded.out);
  BOOST_TEST(translate({"--model", out + "/far-seed-1"}).status == 2);  // and no training of its own
}

BOOST_AUTO_TEST_CASE(seeds_are_runs_of_their_own) {
  Folder folder;
  Ended ended = translate(tiny((folder / "out").string(), {"--seed", "7", "--seeds", "2"}));
  BOOST_TEST(ended.status == 0, ended.err);
  BOOST_TEST(contains(ended.out, " ± "), ended.out);
  auto run = [&](const char* name) { return folder / "out" / name; };
  BOOST_TEST(load_json(run("model-seed-7") / "config.json").at("seed") == 7);
  BOOST_TEST(load_json(run("model-seed-8") / "config.json").at("seed") == 8);
  BOOST_TEST(contents(run("model-seed-7") / "best.safetensors") != contents(run("model-seed-8") / "best.safetensors"));
  // Each is what a run of its seed alone would be.
  BOOST_TEST(translate(tiny((folder / "alone").string(), {"--seed", "8"})).status == 0);
  BOOST_TEST(contents(folder / "alone" / "best.safetensors") == contents(run("model-seed-8") / "best.safetensors"));
}

BOOST_AUTO_TEST_CASE(what_is_refused_names_its_flag) {
  Folder folder;
  std::string out = (folder / "out").string();
  auto refused = [&](std::vector<std::string> flags, const std::string& says) {
    Ended ended = translate(tiny(out, std::move(flags)));
    BOOST_TEST(ended.status == 2);
    BOOST_TEST(ended.err.starts_with("translate: " + says), ended.err);
    BOOST_TEST(!std::filesystem::exists(folder / "out"));  // whatever some row is refused for, none is trained
  };
  refused({"--heads", "3"}, "--heads 3: must divide --model-dim 8");
  refused({"--cross-attention", "relative"}, "--cross-attention: relative: queries and keys must be tokens of one");
  refused({"--compare", "global; wide: --data x"}, "--compare: 'wide': --data: cannot differ between the rows");
  refused({"--compare", "a: --heads 2; a: --heads 4"}, "--compare: 'a' is there twice");
  refused({"--compare", "gausian"}, "--compare: 'gausian': --attention: 'gausian': no method 'gausian'");
  refused({"--compare", "both: --attention \"relative + gausian\" --heads 2"},
          "--compare: 'both': --attention: 'relative + gausian': no method 'gausian'");
  refused({"--decode", "x"}, "--decode: needs --model");
  refused({"--parameters"}, "--parameters: needs --vocabulary-size");
  refused({"--init", "/nowhere.safetensors"}, "--init /nowhere.safetensors: there is no such file");
  refused({"--min-length", "13"}, "--min-length 13: is more than --longest, 12");
  refused({"--positions", "learned", "--max-positions", "12"},
          "--longest 12: <s> and so many tokens are more than --max-positions, 12");
  refused({"--positions", "learned", "--max-positions", "13", "--max-length", "20", "--length-multiple", "16"},
          "--max-positions 13: the longest text has 16 tokens with its padding");
  std::filesystem::create_directory(folder / "long");
  for (const char* name : {"train.xx", "train.yy", "dev.xx", "dev.yy", "test.xx", "test.yy"})
    for (int k = 0; k < 102; ++k) std::ofstream(folder / "long" / name, std::ios::app) << "word ";
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
