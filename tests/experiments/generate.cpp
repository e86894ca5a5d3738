// `generate`: the generated texts as files, which train as `--data generated` does.
#include <fstream>
#include <set>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>

#include "experiments/support/metrics/alignment.h"
#include "experiments/support/program/run_log.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/text/words.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

void require_done(const std::string& program, const std::vector<std::string>& flags) {
  succeeded(ended(program, flags));
}

/// The losses of a training of `program`, and the hashes of its data.
std::string trained(const std::string& program, const std::string& out, const std::vector<std::string>& flags) {
  require_done(program, joined(flags, {"--out", out}));
  std::string text = text_of(load_json(out + "/data.json"));
  for (const Json& line : read_log(out + "/log.jsonl"))
    if (line.contains("loss")) text += " " + text_of(line.at("loss"));
  return text;
}

struct Grammar {
  std::string name, program, sizes;
  std::vector<std::string> read;  ///< flags of a program that reads the files
};

const std::vector<Grammar> grammars{
    {"mt", "translate", "train=60,dev=10,test=12", {"--source", "source", "--target", "target"}},
    {"sum", "summarize", "train=60,dev=10,test=12", {"--source", "article", "--target", "headline"}},
    {"lm", "language_model", "train=60,dev=10,test=12", {}},
    {"sent", "sentiment", "train=60,dev=10,test=12", {}},
    {"sva", "agreement", "train=90,dev=10,test=900", {}}};

}  // namespace

BOOST_AUTO_TEST_SUITE(generate)

BOOST_AUTO_TEST_CASE(training_on_the_files_is_training_on_generated_data) {
  for (const Grammar& grammar : grammars) {
    const Folder folder;
    const std::string files = (folder / "files").string(), data = "generated:" + grammar.sizes + ",seed=5";
    require_done("generate", {grammar.name, "--out", files, "--seed", "5", "--data", "generated:" + grammar.sizes});
    std::vector<std::string> model{"--model-dim", "8", "--updates", "2", "--feed-forward-dim", "8", "--layers", "1"};
    if (grammar.name == "mt" || grammar.name == "sum") model.insert(model.end(), {"--longest", "4"});
    const std::string of_files =
        trained(grammar.program, (folder / "a").string(), joined(joined({"--data", files}, grammar.read), model));
    BOOST_TEST(of_files == trained(grammar.program, (folder / "b").string(), joined({"--data", data}, model)),
               grammar.name);
  }
}

BOOST_AUTO_TEST_CASE(the_hard_subset_is_that_of_the_program) {
  const Folder folder;
  const std::string files = (folder / "files").string();
  require_done("generate", {"sva", "--out", files, "--train", "36", "--dev", "4", "--test", "360"});
  const TextFile test = read_lines((folder / "files/sva_test.tsv").string()),
                 hard = read_lines((folder / "files/sva_hard.tsv").string());
  BOOST_TEST(test.lines.size() == 361u);
  std::vector<std::string> expected;
  for (const std::string& line : test.lines) {
    const auto columns = split_columns(line);
    if (columns[3] == "n_intervening" || columns[3] == columns[4]) expected.push_back(line);
  }
  BOOST_TEST(hard.lines == expected, boost::test_tools::per_element());
  BOOST_TEST(hard.lines.size() > 20u);
  const std::vector<std::string> model{"--model-dim", "8", "--updates",          "1",
                                       "--layers",    "1", "--feed-forward-dim", "8"};
  require_done("agreement", joined({"--data", files, "--hard-subset", "--out", (folder / "run").string()}, model));
  BOOST_TEST(load_json(folder / "run/data.json").at("test").at("examples") == hard.lines.size() - 1);
}

BOOST_AUTO_TEST_CASE(characters_are_linked_where_their_words_are) {
  const Folder folder;
  for (const char* form : {"words", "characters"})
    require_done("generate", {"mt", "--out", (folder / form).string(), "--data", "generated:train=20,dev=1,test=1",
                              std::string(form) == "words" ? "--no-characters" : "--characters"});
  const auto lines = [&](const std::string& name) { return read_lines((folder / name).string()).lines; };
  // the words that characters spell, and for each character the number of its word; -1 for the sign between words
  const auto spelt = [](const std::string& characters) {
    std::pair<std::string, std::vector<std::int64_t>> result;
    std::int64_t word = 0;
    for (std::string_view character : split_words(characters)) {
      const bool is_between = character == "▁";
      result.first += is_between ? " " : character;
      result.second.push_back(is_between ? -1 : word);
      word += is_between;
    }
    return result;
  };
  const auto sources = lines("words/train.source"), targets = lines("words/train.target"),
             gold = lines("words/train.align");
  for (std::size_t k = 0; k < sources.size(); ++k) {
    const auto [source, source_word] = spelt(lines("characters/train.source")[k]);
    const auto [target, target_word] = spelt(lines("characters/train.target")[k]);
    BOOST_TEST(source == sources[k]);
    BOOST_TEST(target == targets[k]);
    const GoldAlignment links = parse_alignment(lines("characters/train.align")[k]);
    BOOST_TEST(links.sure.empty());
    std::set<Link> expected, of_words = parse_alignment(gold[k]).sure;
    for (std::size_t i = 0; i < source_word.size(); ++i)
      for (std::size_t j = 0; j < target_word.size(); ++j)
        if (of_words.count({source_word[i], target_word[j]})) expected.insert({std::int64_t(i), std::int64_t(j)});
    BOOST_TEST((links.possible == expected));
  }
}

BOOST_AUTO_TEST_CASE(files_of_the_user_are_not_overwritten_unless_told_so) {
  for (const auto& [grammar, name] : {std::pair("mt", "dev.align"),
                                      {"sum", "test.headline"},
                                      {"lm", "dev.txt"},
                                      {"sent", "train.tsv"},
                                      {"sva", "sva_hard.tsv"}}) {
    const Folder folder;
    std::ofstream(folder / name) << "mine\n";
    const std::vector<std::string> flags{grammar,  "--out", folder.path.string(), "--train", "3", "--dev", "3",
                                         "--test", "30"};
    BOOST_TEST(refusal_of(ended("generate", flags)) ==
               fmt::format("generate {}: {}: the file exists; give --overwrite to replace it, or "
                           "another --out\n",
                           grammar, (folder / name).string()));
    BOOST_TEST(contents(folder / name) == "mine\n");
    BOOST_TEST(folder.files() == 1u, grammar);
    require_done("generate", joined(flags, {"--overwrite"}));
    BOOST_TEST(contents(folder / name) != "mine\n");
  }
}

BOOST_AUTO_TEST_CASE(the_command_that_trains_is_quoted_for_a_shell) {
  const Folder folder;
  const std::string out = (folder / "g 7").string();
  const Ended done = ended("generate", {"sum", "--out", out, "--train", "3", "--dev", "3", "--test", "3"});
  BOOST_TEST(done.out.ends_with("\nsummarize --data '" + out + "' --source article --target headline\n"), done.out);
}

BOOST_AUTO_TEST_CASE(a_failure_is_one_line_and_leaves_older_files) {
  const Folder folder;
  const std::string files = (folder / "files").string();
  require_done("generate", {"lm", "--out", files, "--train", "3", "--dev", "1", "--test", "1"});
  const auto before = read_lines(files + "/train.txt").lines;
  const std::string wrong = refusal_of(ended("generate", {"lm", "--out", files, "--data", "generated:word=3"}));
  BOOST_TEST(wrong.find("no option 'word' (column 11); did you mean 'words'?") != std::string::npos, wrong);
  BOOST_TEST(wrong.find('\n') == wrong.size() - 1);
  const std::string twice =
      refusal_of(ended("generate", {"lm", "--out", files + "2", "--data", "generated:train=3", "--train", "4"}));
  BOOST_TEST(twice == "generate lm: --train 4: --data has train= already; leave one of them out\n");
  BOOST_TEST(ended("generate", {"lm", "--out", files + "/train.txt"}).status == 2);
  BOOST_TEST(read_lines(files + "/train.txt").lines == before, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
