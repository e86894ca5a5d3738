#include "experiments/support/data/agreement_data.h"

#include <fstream>
#include <map>
#include <set>

#include <boost/test/unit_test.hpp>
#include <fmt/format.h>

#include "experiments/support/program/program.h"
#include "tests/files.h"

using namespace fovea;

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

AgreementOptions options(const fs::path& data) {
  AgreementOptions result;
  result.data = data.string();
  return result;
}

std::string refusal(const AgreementOptions& options) {
  return message_of([&] { load(options); });
}

/// "label/group:text" of each example.
std::vector<std::string> shown(const std::vector<Example>& examples) {
  std::vector<std::string> result;
  for (const Example& example : examples) {
    result.push_back(fmt::format("{}/{}:{}", example.label, example.group, example.text));
  }
  return result;
}

using Texts = std::vector<std::string>;

const std::string sva_header = "source\tlabel\tverb_idx\tsubj_idx\tn_attractors\tverb\tinflected_verb\tsentence\n";
const std::string linzen_header =
    "sentence\torig_sentence\tpos_sentence\tsubj\tverb\tsubj_pos\thas_rel\thas_nsubj\tverb_pos\tsubj_index\tverb_"
    "index\t"
    "n_intervening\tlast_intervening\tn_diff_intervening\tdistance\tmax_depth\tall_nouns\tnouns_up_to_verb\n";

std::string linzen_row(const std::string& sentence, const std::string& pos, int verb_index, int intervening,
                       int differing) {
  return fmt::format("{}\to\tp\tkey\tis\tNN\tFalse\tFalse\t{}\t2\t{}\t{}\tNN\t{}\t1\t0\tkey\tkey\n", sentence, pos,
                     verb_index, intervening, differing);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(agreement_data)

BOOST_AUTO_TEST_CASE(the_text_is_the_words_before_the_verb) {
  Folder folder;
  write(folder / "sva_train.tsv", sva_header +
                                      "a\tSING\t5\t1\t1\tis\tare\tthe key to the cabinets is here .\n"
                                      "a\tPLUR\t2\t1\t-1\tare\tis\tthe keys are here .\n"
                                      "a\tPLUR\t2\t1\t7\tare\tis\tthe \"pots are here .\n");
  write(folder / "sva_dev.tsv", sva_header + "a\tSING\t2\t1\t0\tis\tare\tthe dog is here .\n");
  write(folder / "sva_test.tsv", sva_header +
                                     "a\tSING\t2\t1\t0\tis\tare\tthe cat is here .\n"
                                     "a\tPLUR\t5\t1\t2\tare\tis\tthe cats of the town are here .\n");
  AgreementOptions chosen = options(folder.path);
  ClassificationData data = load(chosen);
  BOOST_TEST(data.classes == (Texts{"singular", "plural"}));
  BOOST_TEST(data.group == "attractors");
  BOOST_TEST(shown(data.train) == (Texts{"0/1:the key to the cabinets", "1/-1:the keys", "1/-1:the \"pots"}));
  BOOST_TEST(shown(data.dev) == Texts{"0/0:the dog"});
  BOOST_TEST(shown(data.test) == (Texts{"0/0:the cat", "1/2:the cats of the town"}));

  chosen.hard_subset = true;
  data = load(chosen);
  BOOST_TEST(shown(data.test) == Texts{"1/2:the cats of the town"});
  BOOST_TEST(data.train.size() == 3u);
  BOOST_TEST(contains(data.source, "at least one attractor"));
}

BOOST_AUTO_TEST_CASE(linzens_file_is_shared_out_by_seed) {
  Folder folder;
  std::string text = linzen_header;
  for (int i = 0; i < 1000; ++i) {
    text += linzen_row(fmt::format("the w{} is here", i), i % 2 == 0 ? "VBZ" : "VBP", 3, i % 4, i % 3);
  }
  write(folder / "agr_50_mostcommon_10K.tsv", text);
  AgreementOptions chosen = options(folder.path);
  const ClassificationData data = load(chosen);
  BOOST_TEST(data.train.size() == 90u);
  BOOST_TEST(data.dev.size() == 10u);
  BOOST_TEST(data.test.size() == 900u);
  std::set<std::string> texts;
  for (const auto* part : {&data.train, &data.dev, &data.test}) {
    for (const Example& example : *part) {
      texts.insert(example.text);
      const int i = std::stoi(example.text.substr(5));
      BOOST_TEST(example.label == i % 2);
      BOOST_TEST(example.group == i % 3);
    }
  }
  BOOST_TEST(texts.size() == 1000u);
  BOOST_TEST(shown(load(options(folder / "agr_50_mostcommon_10K.tsv")).train) == shown(data.train));

  chosen.hard_subset = true;
  const ClassificationData hard = load(chosen);
  BOOST_TEST(shown(hard.train) == shown(data.train));
  std::size_t expected = 0;
  for (const Example& example : data.test) {
    const int i = std::stoi(example.text.substr(5));
    expected += i % 4 == i % 3 ? 1 : 0;
  }
  BOOST_TEST(hard.test.size() == expected);
  for (const Example& example : hard.test) BOOST_TEST(std::stoi(example.text.substr(5)) % 4 == example.group);

  chosen.split_seed = 2;
  BOOST_TEST(shown(load(chosen).train) != shown(data.train));
}

BOOST_AUTO_TEST_CASE(fields_may_be_quoted_as_python_writes_them) {
  Folder folder;
  std::string text = linzen_header;
  for (int i = 0; i < 200; ++i) {
    const char* quoted[] = {"\"the \"\"big\"\" dogs are\"", "\"\"\"no\"\" man\tthinks are\"", "\"odd dogs are"};
    text += linzen_row(quoted[i % 3], i % 2 == 0 ? "VBZ" : "VBP", i % 3 == 2 ? 3 : 4, 0, 0);
  }
  text.replace(0, linzen_header.size(), linzen_header.substr(0, linzen_header.size() - 1) + "\r\n");
  write(folder / "agr_50_mostcommon_10K.tsv", text);
  std::map<std::string, int> seen;
  const ClassificationData data = load(options(folder.path));
  for (const Example& example : data.test) ++seen[example.text];
  BOOST_TEST(seen.size() == 3u);
  BOOST_TEST(seen["the \"big\" dogs"] > 0);
  BOOST_TEST(seen["\"no\" man thinks"] > 0);
  BOOST_TEST(seen["\"odd dogs"] > 0);
}

BOOST_AUTO_TEST_CASE(one_file_of_the_other_layout_is_split_by_hash) {
  Folder folder;
  std::string text = sva_header;
  for (int i = 0; i < 1000; ++i) {
    text += fmt::format("a\t{}\t2\t1\t{}\tis\tare\tthe w{} is here\n", i % 2 == 0 ? "SING" : "PLUR", i % 5, i);
  }
  write(folder / "some.tsv", text);
  AgreementOptions chosen = options(folder / "some.tsv");
  const ClassificationData data = load(chosen);
  BOOST_TEST(data.train.size() + data.dev.size() + data.test.size() == 1000u);
  BOOST_TEST(std::abs(static_cast<int>(data.test.size()) - 100) < 40);
  BOOST_TEST(std::abs(static_cast<int>(data.dev.size()) - 100) < 40);
  chosen.hard_subset = true;
  const ClassificationData hard = load(chosen);
  BOOST_TEST(shown(hard.train) == shown(data.train));
  for (const Example& example : hard.test) BOOST_TEST(example.group > 0);
}

BOOST_AUTO_TEST_CASE(broken_files_are_refused_with_their_line) {
  Folder folder;
  const auto message_for = [&](const std::string& text) {
    write(folder / "train.tsv", text);
    return refusal(options(folder.path));
  };
  const std::string good = "a\tSING\t2\t1\t1\tis\tare\tthe key is\n";
  const auto row = [](const std::string& label, const std::string& verb, const std::string& attractors) {
    return fmt::format("a\t{}\t{}\t1\t{}\tis\tare\tthe key is\n", label, verb, attractors);
  };
  BOOST_TEST(contains(message_for(""), "train.tsv: the file is empty"));
  BOOST_TEST(contains(message_for(good), "train.tsv:1: the columns are 'a\tSING"));
  BOOST_TEST(
      contains(message_for("sentence\tlabel\n"), "train.tsv:1: the columns are 'sentence\tlabel', expected a header"));
  BOOST_TEST(contains(message_for(sva_header + good + "a\tb\n"), "train.tsv:3: 2 columns, expected 8"));
  BOOST_TEST(contains(message_for(sva_header + row("sing", "2", "1")), "train.tsv:2: number 'sing', expected SING or"));
  BOOST_TEST(
      contains(message_for(sva_header + row("SING", "two", "1")), "train.tsv:2: verb position 'two', expected an"));
  BOOST_TEST(
      contains(message_for(sva_header + row("SING", "3", "1")), "train.tsv:2: the verb is word 3 (from 0) of a sen"));
  BOOST_TEST(contains(message_for(sva_header + row("SING", "0", "1")), "the verb is word 0"));
  BOOST_TEST(contains(message_for(sva_header + row("SING", "99999999999999999999", "1")), "expected an integer"));
  BOOST_TEST(contains(message_for(sva_header + row("SING", "2", "1x")), "number of attractors '1x'"));
  const std::string linzen = message_for(linzen_header + linzen_row("the key is", "NN", 3, 0, 0));
  BOOST_TEST(contains(linzen, "train.tsv:2: number 'NN'"), linzen);
  BOOST_TEST(contains(message_for(linzen_header + linzen_row("the key is", "VBZ", 1, 0, 0)), "the verb is word 0"));
  fs::remove(folder / "train.tsv");
  write(folder / "other.txt", "x");
  const std::string found = refusal(options(folder.path));
  BOOST_TEST(contains(found, "looked for *train.tsv[.gz] and agr_50_mostcommon_10K.tsv[.gz]; found other.txt"), found);
}

BOOST_AUTO_TEST_CASE(flags_set_the_options) {
  const char* arguments[] = {"agreement", "--data", "d", "--hard-subset", "--split-seed", "3", "--test-examples=7"};
  AgreementOptions chosen;
  Cli cli("agreement", static_cast<int>(std::size(arguments)), arguments);
  cli.add(chosen);
  cli.parse();
  BOOST_TEST(chosen.data == "d");
  BOOST_TEST(chosen.hard_subset);
  BOOST_TEST(chosen.split_seed == 3);
  BOOST_TEST(chosen.test_examples == 7);
}

BOOST_AUTO_TEST_SUITE_END()
