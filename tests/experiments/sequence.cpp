// Sequence models as the programs train, test and use them.
#include <fstream>

#include <boost/test/unit_test.hpp>

#include "experiments/support/data/generated_text.h"
#include "experiments/support/program/program.h"
#include "experiments/support/sequence/sequence_experiment.h"
#include "tests/experiments/markup.h"
#include "tests/files.h"

using namespace fovea;

namespace {

struct Ended {
  int status;
  std::string out, err;
};

/// What `translate` does with these flags, in a process of its own.
Ended translate(const std::vector<std::string>& flags) {
  Folder folder;
  int status = status_in_child([&] {
    std::freopen((folder / "out").c_str(), "w", stdout);
    std::freopen((folder / "err").c_str(), "w", stderr);
    std::vector<const char*> arguments{"translate"};
    for (const std::string& flag : flags) arguments.push_back(flag.c_str());
    int result = run("translate", int(arguments.size()), arguments.data(), [](Cli& cli) {
      std::string data = "generated:train=60,dev=10,test=12,phrases=1-2,words=4";
      SequenceExperiment experiment({.name = "translate", .metrics = {"bleu", "ribes"}});
      cli.option("--data", data, "pairs");
      cli.add(experiment);
      cli.parse();
      experiment.run(cli, [&] { return generate_translation(data); });
    });
    std::fflush(nullptr);
    return result;
  });
  return {status, contents(folder / "out"), contents(folder / "err")};
}

std::vector<std::string> tiny(const std::string& out, std::vector<std::string> more = {}) {
  std::vector<std::string> flags{"--model-dim",
                                 "8",
                                 "--heads",
                                 "2",
                                 "--feed-forward-dim",
                                 "8",
                                 "--updates",
                                 "4",
                                 "--layers",
                                 "1",
                                 "--evaluate-every",
                                 "2",
                                 "--checkpoint-every",
                                 "1",
                                 "--min-count",
                                 "1",
                                 "--longest",
                                 "12",
                                 "--out",
                                 out};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

SequenceData small_data(const PairTextOptions& text, const BatchOptions& batches) {
  auto pairs = generate_translation("generated:train=9,dev=5,test=5,phrases=1-2,words=4");
  SequenceData data{train_tokenizers(*pairs, text), {}, {}, {}, {}, {}};
  encode_parts(data, *pairs, {}, batches);
  return data;
}

std::unique_ptr<SequenceModel> small_model(const PairTokenizers& tokenizers, const std::string& attention) {
  SequenceModelOptions options;
  options.architecture = Architecture::recurrent;
  options.attention = attention;
  options.layers = 1;
  options.dropout = 0;
  options.model_dim = 4;
  options.embedding_dim = 5;
  options.readout_dim = 3;
  auto model = options.make(tokenizers.source->size(), tokenizers.target->size());
  model->initialise(3);
  return model;
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
  std::vector<TokenLoss> together = sentence_losses(*model, data.train, all),
                         apart = sentence_losses(*model, data.train, single);
  std::int64_t tokens = 0;
  for (std::size_t k = 0; k < together.size(); ++k) {
    BOOST_TEST(together[k].nll == apart[k].nll, boost::test_tools::tolerance(1e-4));
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
    double divisor = task.next_update([&](const Variable& part) { sum += part.item(); });
    return std::pair(sum, divisor);
  };
  SequenceLossOptions plain{.label_smoothing = 0};
  TokenLoss expected = total(sentence_losses(*model, data.train, batches));
  auto [sum, tokens] = update(plain);
  BOOST_TEST(tokens == static_cast<double>(expected.tokens));
  BOOST_TEST(sum == expected.nll, boost::test_tools::tolerance(1e-4));

  SequenceLossOptions gated{.label_smoothing = 0, .gate = 0.25};
  auto [by_token, same_tokens] = update(gated);
  gated.gate_norm = GateNorm::sentence;
  auto [by_sentence, sentences] = update(gated);
  BOOST_TEST(same_tokens == tokens);
  BOOST_TEST(sentences == 9.0);
  double mean_gate = (expected.nll - by_sentence) / (0.25 * 9);
  BOOST_TEST((mean_gate > 0.2 && mean_gate < 0.8));  // a sigmoid of small numbers
  // Micro-batches of three sentences: their mean gates, weighted by their tokens.
  BOOST_TEST((expected.nll - by_token) / (0.25 * tokens) == mean_gate, boost::test_tools::tolerance(0.2));
}

BOOST_AUTO_TEST_CASE(gates_need_flexible_attention) {
  PairTextOptions text;
  text.text.min_count = 1;
  BatchOptions batches;
  SequenceData data = small_data(text, batches);
  auto model = small_model(data.tokenizers, "classic(additive)");
  SequenceLossOptions gated{.gate = 0.1};
  SequenceTask task(*model, data.train, batches, gated, 1, "score", [] { return 0.0; });
  BOOST_TEST(message_of([&] {
               task.next_update([](const Variable&) {});
             }).starts_with("--gate: no attention of this model has a gate"));
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
    BOOST_TEST(!std::filesystem::exists(folder / "out"));
  };
  refused({"--heads", "3"}, "--heads 3: must divide --model-dim 8");
  refused({"--cross-attention", "relative"}, "--cross-attention: relative: relative positions need");
  refused({"--compare", "global; wide: --data x"}, "--compare: 'wide': --data: cannot differ between the rows");
  refused({"--compare", "a: --heads 2; a: --heads 4"}, "--compare: 'a' is there twice");
  refused({"--compare", "gausian"}, "--compare: 'gausian': --attention: 'gausian': no method 'gausian'");
  refused({"--decode", "x"}, "--model and --decode go together");
  refused({"--parameters"}, "--parameters: needs --vocabulary-size");
  refused({"--init", "/nowhere.safetensors"}, "--init /nowhere.safetensors: there is no such file");
}

BOOST_AUTO_TEST_SUITE_END()
