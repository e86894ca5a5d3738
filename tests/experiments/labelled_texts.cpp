// Texts with labels: tables, the Stanford Sentiment Treebank, IMDB, subject-verb agreement; parts, limits, faults.
#include "experiments/support/data/labelled_texts.h"

#include <map>
#include <set>

#include <boost/test/unit_test.hpp>
#include <fmt/format.h>

#include "tests/files.h"

using namespace fovea;

namespace {

using Texts = std::vector<std::string>;
namespace fs = std::filesystem;

SentimentOptions sentiment(const fs::path& data) {
  SentimentOptions options;
  options.data = data.string();
  return options;
}

AgreementOptions agreement(const fs::path& data) {
  AgreementOptions options;
  options.data = data.string();
  return options;
}

template <class Options>
std::string refusal(const Options& options) {
  return message_of([&] { load(options); });
}

/// "label:text" of each pair.
Texts shown(const std::vector<TextPair>& pairs) {
  Texts result;
  for (const TextPair& pair : pairs) result.push_back(pair.target + ":" + pair.source);
  return result;
}

std::vector<TextPair> part_of(LabelledTexts data, Part part) { return data[part]; }

std::size_t size(const LabelledTexts& data) {
  return data.parts[0].size() + data.parts[1].size() + data.parts[2].size();
}

const std::string good_tree = "(3 (2 It) (4 (2 's) (4 good)))\n";
const std::string bad_tree = "(1 (2 A) (1 (1 bad) (2 one\\/two)))\n";
const std::string neutral_tree = "(2 (2 a) (2 (2 -LRB-) (2 film)))\n";

void write_trees(const Folder& folder, const std::string& in = "") {
  folder.write(in + "train.txt", good_tree + bad_tree + "\n" + neutral_tree + good_tree);
  folder.write(in + "dev.txt", good_tree + neutral_tree);
  folder.write(in + "test.txt", bad_tree);
}

/// The same text as training, development and test file.
void write_parts(const Folder& folder, const std::string& ending, const std::string& text) {
  for (const char* part : {"x_train", "x_val", "x_test"}) folder.write(part + ending, text);
}

const std::string sva_header = "source\tlabel\tverb_idx\tsubj_idx\tn_attractors\tverb\tinflected_verb\tsentence\n";
const std::string linzen_header = "sentence\torig_sentence\tverb_pos\tverb_index\tn_intervening\tn_diff_intervening\n";

std::string sva_row(const std::string& label, const std::string& verb, const std::string& attractors,
                    const std::string& sentence = "the key is") {
  return fmt::format("a\t{}\t{}\t1\t{}\tis\tare\t{}\n", label, verb, attractors, sentence);
}
std::string linzen_row(const std::string& sentence, const std::string& pos, int verb, int between, int differing) {
  return fmt::format("{}\to\t{}\t{}\t{}\t{}\n", sentence, pos, verb, between, differing);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(labelled_texts)

BOOST_AUTO_TEST_CASE(a_table_is_understood_whatever_its_format_order_and_header) {
  const std::string rows = "a very good film\tpos\nbad\tneg\nthe worst film\tneg\n";
  const std::string turned = "pos\ta very good film\nneg\tbad\nneg\tthe worst film\n";
  const std::string wide = "1\ta very good film\t.9\tpos\n2\tbad\t.1\tneg\n3\tthe worst film\t.1\tneg\n";
  struct Case {
    std::string ending, text, columns = automatic_columns;
    Header header = Header::automatic;
  };
  const std::vector<Case> cases{
      {".tsv", rows},
      {".txt", rows},
      {".tsv", "\n" + rows + "\n"},
      {".tsv", "sentence\tlabel\n" + rows},
      {".tsv", "Label\tText\n" + turned},
      {".tsv", "sentence\tmood\n" + rows},
      {".tsv", "x\ty\n" + rows, "x,y"},
      {".tsv", turned, "2,1"},
      {".tsv", "id\ttitle\tscore\tjudgement\n" + wide, "title,judgement"},
      {".csv", "label,text\npos,\"a very<br />good\nfilm\"\nneg,bad\nneg,the worst film\n"},
      {".jsonl",
       "{\"n\": 1, \"text\": \"a very good\\nfilm\", \"label\": \"pos\"}\n{\"label\": \"neg\", \"text\": "
       "\"bad\"}\n\n{\"label\": \"neg\", \"text\": \"the worst film\"}\n"}};
  for (const Case& one : cases) {
    const Folder folder;
    write_parts(folder, one.ending, one.text);
    for (const fs::path& path : {folder.path, folder / ("x_train" + one.ending)}) {
      SentimentOptions options = sentiment(path);
      options.columns = one.columns;
      options.header = one.header;
      const LabelledTexts data = load(options);
      BOOST_TEST(data.labels == (Texts{"neg", "pos"}), one.text);
      for (const Part part : all_parts)
        BOOST_TEST(shown(data[part]) == (Texts{"pos:a very good film", "neg:bad", "neg:the worst film"}), one.text);
      BOOST_TEST(contains(data.source, "x_train" + one.ending + " ("), data.source);
      BOOST_TEST(contains(data.source, "), x_val" + one.ending + ", x_test" + one.ending), data.source);
    }
  }
}

BOOST_AUTO_TEST_CASE(columns_are_found_by_name_in_each_file) {
  const Folder folder;
  folder.write("train.tsv", "id\tsentence\tlabel\n1\ta b\tx\n2\tc\ty\n");
  folder.write("dev.tsv", "label\tsentence\ny\td e\n");
  folder.write("test.tsv", "f\tx\n");
  const LabelledTexts data = load(sentiment(folder.path));
  BOOST_TEST(shown(data[Part::dev]) == Texts{"y:d e"});
  BOOST_TEST(shown(data[Part::test]) == Texts{"x:f"});
}

BOOST_AUTO_TEST_CASE(classes_are_in_the_order_of_numbers_or_bytes) {
  const Folder folder;
  for (const auto& [labels, expected] : std::vector<std::pair<Texts, Texts>>{
           {{"10", "9", "-1", "9", "99999999999999999999"}, {"-1", "9", "10", "99999999999999999999"}},
           {{"b", "a", "10", "9"}, {"10", "9", "a", "b"}}}) {
    std::string table = "text\tlabel\n";
    for (const std::string& label : labels) table += "some text\t" + label + "\n";
    write_parts(folder, ".tsv", table);
    BOOST_TEST(load(sentiment(folder.path)).labels == expected);
  }
  LabelledTexts data;
  data.source = "x.tsv";
  data.labels = {"a", "b"};
  BOOST_TEST(data.description() == "x.tsv: 0 train, 0 dev, 0 test, classes a, b");
  for (int i = 0; i < 198; ++i) data.labels.push_back("c" + std::to_string(i));
  BOOST_TEST(data.description() ==
             "x.tsv: 0 train, 0 dev, 0 test, 200 classes: a, b, c0, c1, c2, c3, c4, c5 and 192 more");
}

BOOST_AUTO_TEST_CASE(a_column_says_which_part_a_row_is_of) {
  const Folder folder;
  const std::string header = "subset\ttext\tlabel\n", train = "train\tgood\t1\ntrain\tbad\t0\n";
  const std::string file = folder.write(
      "rows.tsv", header + "test\tfine\t1\n" + train + "Validation\tpoor\t0\nval\tgreat\t1\nTEST\tdull\t0\n");
  const LabelledTexts data = load(sentiment(file));
  BOOST_TEST(shown(data[Part::train]) == (Texts{"1:good", "0:bad"}));
  BOOST_TEST(shown(data[Part::dev]) == (Texts{"0:poor", "1:great"}));
  BOOST_TEST(shown(data[Part::test]) == (Texts{"1:fine", "0:dull"}));
  BOOST_TEST(contains(refusal(sentiment(folder.write("rows.tsv", header + train + "held\tfine\t1\n"))),
                      "rows.tsv:4: subset 'held', expected train, dev (or val, valid, validation) or test"));
  BOOST_TEST(contains(refusal(sentiment(folder.write("rows.tsv", header + "dev\tfine\t1\n"))),
                      "rows.tsv: no row has the subset train"));
}

BOOST_AUTO_TEST_CASE(equal_numbers_are_one_label) {
  const Folder folder;
  std::string many;
  for (int k = 0; k < 20; ++k)
    for (const char* label : {"1", "1.0", "1e0", "0", "-0.0", "0.5", "12", "1.2e1"})
      many += fmt::format("{{\"text\": \"text {0} labelled {1}\", \"label\": {1}}}\n", k, label);
  BOOST_TEST(load(sentiment(folder.write("t.jsonl", many))).labels == (Texts{"0", "0.5", "1", "12"}));
}

BOOST_AUTO_TEST_CASE(a_header_of_unknown_names_is_not_an_example) {
  const Folder folder;
  std::string rows;
  for (int k = 0; k < 30; ++k) rows += fmt::format("a cat of size {}\t{}\n", k, k % 2 ? "blue" : "green");
  SentimentOptions options = sentiment(folder.write("colours.tsv", "words\tmood\n" + rows));
  BOOST_TEST(contains(refusal(options),
                      "colours.tsv: the first line looks like a header (words, mood): the label is on no other line; "
                      "give --header yes if the line names the columns, --header no if it is an example"));
  for (const auto& [header, examples] : {std::pair(Header::yes, 30u), std::pair(Header::no, 31u)}) {
    options.header = header;
    BOOST_TEST(size(load(options)) == examples);
  }
}

BOOST_AUTO_TEST_CASE(faulty_tables_are_refused_with_their_line) {
  const std::string good = "a b c\t1\nd e\t0\nf\t1\n";
  std::string many;
  for (int i = 0; i < 1002; ++i) many += fmt::format("word\tlabel{}\n", i);
  struct Case {
    std::string text, expected, columns = automatic_columns;
    Header header = Header::automatic;
    int classes = 0;
  };
  const std::vector<Case> cases{
      {good + "alone\n", "train.tsv:4: 1 column, expected 2"},
      {good + "x\t \n", "train.tsv:4: the label is empty"},
      {good + " \t1\n", "train.tsv:4: the text is empty"},
      {"sentence\tlabel\n", "train.tsv: the file has a header (columns sentence, label), but no line below it"},
      {"a\tx\nb c\tx\n", "all 2 training examples are of the class 'x': nothing to learn", "1,2"},
      {many, "train.tsv:1001: more than 1000 different labels", "1,2"},
      {good, "2 different labels (0, 1), --classes asks for 3", "auto", Header::automatic, 3},
      {good, "train.tsv:1: there is no column 'title'", "title,rating"},
      {good, "--columns 2,2: '2' is given twice; TEXT,LABEL are different fields", "2,2"}};
  for (const Case& one : cases) {
    const Folder folder;
    for (const char* part : {"train.tsv", "dev.tsv", "test.tsv"}) folder.write(part, one.text);
    SentimentOptions options = sentiment(folder.path);
    options.columns = one.columns;
    options.header = one.header;
    options.classes = one.classes;
    BOOST_TEST(contains(refusal(options), one.expected), one.expected + " | " + refusal(options));
  }
  const Folder folder;
  folder.write("train.tsv", good);
  folder.write("dev.tsv", "x\t1\ny\t2\n");
  BOOST_TEST(
      contains(refusal(sentiment(folder.path)), "dev.tsv:2: label '2' does not occur in the training texts (0, 1)"));
}

BOOST_AUTO_TEST_CASE(the_treebank_has_five_classes_or_two_phrases_or_sentences) {
  const Folder folder;
  write_trees(folder, "trees/");
  const Texts sentences{"positive:It 's good", "negative:A bad one/two", "neutral:a ( film", "positive:It 's good"};
  for (const fs::path& path : {folder.path, folder / "trees", folder / "trees/train.txt"}) {  // siblings come along
    SentimentOptions options = sentiment(path);
    const LabelledTexts data = load(options);
    BOOST_TEST(data.labels == (Texts{"negative", "positive"}));
    BOOST_TEST(shown(data[Part::train]) == (Texts{"positive:It 's good", "positive:'s good", "positive:good",
                                                  "negative:A bad one/two", "negative:bad one/two", "negative:bad"}));
    BOOST_TEST(shown(data[Part::dev]) == Texts{"positive:It 's good"});
    BOOST_TEST(shown(data[Part::test]) == Texts{"negative:A bad one/two"});
    options.classes = 5;
    BOOST_TEST(load(options)[Part::train].size() == 15u);  // of 20 nodes, 5 occur twice
    BOOST_TEST(shown(load(options)[Part::dev]) == (Texts{"positive:It 's good", "neutral:a ( film"}));
    options.phrases = Phrases::sentences;
    BOOST_TEST(shown(load(options)[Part::train]) == sentences);
  }
}

BOOST_AUTO_TEST_CASE(faulty_trees_are_refused_with_their_place) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "(2 ";
  const Folder folder;
  for (const auto& [line, expected] : std::vector<std::pair<std::string, std::string>>{
           {"(3 good", "the line ends inside the tree"},
           {"(3 good))", "column 9: text outside the tree"},
           {"(3 good) (3 x)", "column 10: text outside the tree"},
           {"good", "column 1: text outside the tree"},
           {"(7 good)", "column 1: expected a label 0-4"},
           {"(good)", "column 1: expected a label 0-4"},
           {"(3)", "column 3: the end of a node that is neither one word nor other nodes"},
           {"(3 two words)", "column 13: the end of a node that is neither"},
           {"(3 (2 a) b)", "column 11: the end of a node that is neither"},
           {std::string(100'000, '('), "column 1: expected a label"},
           {deep, "column 601: more than 200 nodes lie in each other"}}) {
    folder.write("train.txt", good_tree + line + "\n");
    const std::string message = refusal(sentiment(folder.path));
    BOOST_TEST(contains(message, "train.txt:2: " + expected), message);
  }
}

BOOST_AUTO_TEST_CASE(imdb_is_read_from_directories_and_tables) {
  const Folder folder;
  const std::string in = "aclImdb/";
  for (const auto& [name, text] :
       std::map<std::string, std::string>{{"train/pos/0_9.txt", "Good.<br /><br />Very good"},
                                          {"train/pos/10_8.txt", "ten"},
                                          {"train/pos/2_8.txt", "two\nlines\n"},
                                          {"train/neg/1_1.txt", "Bad<BR>one <b>x</b> < br"},
                                          {"train/unsup/1_0.txt", "unlabelled"},
                                          {"test/pos/1_7.txt", "fine"},
                                          {"test/neg/1_3.txt", "poor<br/>"},
                                          {"val/pos/1_7.txt", "dev good"},
                                          {"val/neg/1_3.txt", "dev bad"}})
    folder.write(in + name, text);
  for (const fs::path& path : {folder / in, folder.path}) {
    const LabelledTexts data = load(sentiment(path));
    BOOST_TEST(shown(data[Part::train]) == (Texts{"negative:Bad one <b>x</b> < br", "positive:Good. Very good",
                                                  "positive:two lines", "positive:ten"}));
    BOOST_TEST(shown(data[Part::dev]) == (Texts{"negative:dev bad", "positive:dev good"}));
    BOOST_TEST(shown(data[Part::test]) == (Texts{"negative:poor", "positive:fine"}));
  }
  fs::remove_all(folder / in / "test/neg");
  BOOST_TEST(contains(refusal(sentiment(folder.path)), "test/neg: no such directory"));
  for (const auto& [name, text, expected] : {std::tuple("readme", "", "test/neg: no .txt file; it has readme"),
                                             std::tuple("1_1.txt", "\xff", "1_1.txt:1: byte 1 is 0xff"),
                                             std::tuple("1_1.txt", " <br />\n", "1_1.txt: the review is empty")}) {
    folder.write(in + "test/neg/" + name, text);
    BOOST_TEST(contains(refusal(sentiment(folder.path)), expected), expected);
  }

  const Folder tables;
  const std::string header = "label\trating\tid\tsubset\ttext\n";
  tables.write("imdb_train.tsv", header + "1\t9\t1\ttrain\tgood<br />one\n0\t1\t2\ttrain\tbad\n0\t1\t3\tval\tpoor\n");
  tables.write("imdb_test.tsv", header + "1\t9\t1\ttest\tfine\n0\t1\t2\ttest\tdull\n");
  const LabelledTexts data = load(sentiment(tables.path));
  BOOST_TEST(shown(data[Part::train]) == (Texts{"1:good one", "0:bad"}));
  BOOST_TEST(shown(data[Part::dev]) == Texts{"0:poor"});
  BOOST_TEST(shown(data[Part::test]) == (Texts{"1:fine", "0:dull"}));
}

BOOST_AUTO_TEST_CASE(the_text_of_agreement_is_the_words_before_the_verb) {
  const Folder folder;
  folder.write("sva_train.tsv", sva_header + sva_row("SING", "5", "1", "the key to the cabinets is here .") +
                                    sva_row("PLUR", "2", "-1", "the keys are here .") +
                                    sva_row("PLUR", "2", "7", "the \"pots are here ."));
  folder.write("sva_dev.tsv", sva_header + sva_row("SING", "2", "0", "the dog is here ."));
  folder.write("sva_test.tsv", sva_header + sva_row("SING", "2", "0", "the cat is here .") +
                                   sva_row("PLUR", "5", "2", "the cats of the town are here ."));
  AgreementOptions options = agreement(folder.path);
  LabelledTexts data = load(options);
  BOOST_TEST(data.labels == (Texts{"singular", "plural"}));
  BOOST_TEST(data.group() == "attractors");
  BOOST_TEST(shown(data[Part::train]) ==
             (Texts{"singular:the key to the cabinets", "plural:the keys", "plural:the \"pots"}));
  std::vector<int> groups;
  for (const TextPair& pair : data[Part::train]) groups.push_back(pair.group);
  BOOST_TEST(groups == (std::vector<int>{1, -1, -1}));
  BOOST_TEST(shown(data[Part::test]) == (Texts{"singular:the cat", "plural:the cats of the town"}));
  options.hard_subset = true;
  data = load(options);
  BOOST_TEST(shown(data[Part::test]) == Texts{"plural:the cats of the town"});
  BOOST_TEST(data[Part::train].size() == 3u);
  BOOST_TEST(contains(data.source, "(test: hard subset)"));
}

BOOST_AUTO_TEST_CASE(linzens_file_is_shared_out_by_seed) {
  const Folder folder;
  const auto number_of = [](const TextPair& pair) { return std::stoi(pair.source.substr(5)); };
  std::string text = linzen_header;
  for (int i = 0; i < 1000; ++i)
    text += linzen_row(fmt::format("the w{} is here", i), i % 2 == 0 ? "VBZ" : "VBP", 3, i % 4, i % 3);
  folder.write("agr_50_mostcommon_10K.tsv", text);
  AgreementOptions options = agreement(folder.path);
  const LabelledTexts data = load(options);
  BOOST_TEST(data[Part::train].size() == 90u);
  BOOST_TEST(data[Part::dev].size() == 10u);
  BOOST_TEST(data[Part::test].size() == 900u);
  std::set<std::string> texts;
  std::size_t hard = 0;
  for (const Part part : all_parts)
    for (const TextPair& pair : data[part]) {
      const int i = number_of(pair);
      texts.insert(pair.source);
      BOOST_TEST(pair.target == data.labels[std::size_t(i % 2)]);
      BOOST_TEST(pair.group == i % 3);
      hard += part == Part::test && i % 4 == i % 3;
    }
  BOOST_TEST(texts.size() == 1000u);
  BOOST_TEST(shown(load(agreement(folder / "agr_50_mostcommon_10K.tsv"))[Part::train]) == shown(data[Part::train]));
  options.hard_subset = true;
  BOOST_TEST(shown(load(options)[Part::train]) == shown(data[Part::train]));
  BOOST_TEST(load(options)[Part::test].size() == hard);
  for (const TextPair& pair : part_of(load(options), Part::test)) BOOST_TEST(number_of(pair) % 4 == pair.group);
  options.split_seed = 2;
  BOOST_TEST(shown(load(options)[Part::train]) != shown(data[Part::train]));
}

BOOST_AUTO_TEST_CASE(fields_of_linzens_file_may_be_quoted_as_python_writes_them) {
  const Folder folder;
  std::string text = linzen_header.substr(0, linzen_header.size() - 1) + "\r\n";
  text.replace(text.find("verb_index"), 10, "Verb_Index");
  for (int i = 0; i < 200; ++i) {
    const char* quoted[] = {"\"the \"\"big\"\" dogs are\"", "\"\"\"no\"\" man\tthinks are\"", "odd \"dogs are"};
    text += linzen_row(quoted[i % 3], i % 2 == 0 ? "VBZ" : "VBP", i % 3 == 2 ? 3 : 4, 0, 0);
  }
  folder.write("agr_50_mostcommon_10K.tsv", text);
  std::set<std::string> seen;
  for (const TextPair& pair : part_of(load(agreement(folder.path)), Part::test)) seen.insert(pair.source);
  BOOST_TEST((seen == std::set<std::string>{"the \"big\" dogs", "\"no\" man thinks", "odd \"dogs"}));
}

BOOST_AUTO_TEST_CASE(faulty_files_of_agreement_are_refused_with_their_line) {
  const Folder folder;
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"", "train.tsv: the file is empty"},
           {sva_row("SING", "2", "1"), "train.tsv: expected a header with sentence, verb_index"},
           {"sentence\tlabel\n", "train.tsv: expected a header with sentence, verb_index"},
           {"the dogs\t2\tSING\n", "train.tsv: expected a header with sentence, verb_index"},
           {sva_header + sva_row("SING", "2", "1") + "a\tb\n", "train.tsv:3: 2 columns, expected 8"},
           {sva_header + sva_row("sing", "2", "1"), "train.tsv:2: number 'sing', expected SING or"},
           {sva_header + sva_row("SING", "two", "1"), "train.tsv:2: verb position 'two', expected an integer"},
           {sva_header + sva_row("SING", "3", "1"), "train.tsv:2: the verb is word 3 (from 0) of a sentence of 3"},
           {sva_header + sva_row("SING", "0", "1"), "the verb is word 0"},
           {sva_header + sva_row("SING", "99999999999999999999", "1"), "expected an integer"},
           {sva_header + sva_row("SING", "2", "1x"), "number of attractors '1x'"},
           {linzen_header + linzen_row("the key is", "NN", 3, 0, 0), "train.tsv:2: number 'NN'"},
           {linzen_header + linzen_row("the key is", "VBZ", 1, 0, 0), "the verb is word 0"}}) {
    folder.write("train.tsv", text);
    const std::string message = refusal(agreement(folder.path));
    BOOST_TEST(contains(message, expected), message);
  }
}

BOOST_AUTO_TEST_CASE(missing_parts_are_split_off_by_hash) {
  const Folder folder;
  std::string table, sentences = sva_header;
  for (int i = 0; i < 2000; ++i) {
    table += fmt::format("sentence number {}\t{}\n", i, i % 2);
    sentences += sva_row(i % 2 == 0 ? "SING" : "PLUR", "2", std::to_string(i % 5), fmt::format("the w{} is here", i));
  }
  const fs::path all = folder.write("all.tsv", table + table);
  LabelledTexts data = load(sentiment(all));
  std::set<std::string> texts[3];
  for (const Part part : all_parts)
    for (const TextPair& pair : data[part]) texts[std::size_t(part)].insert(pair.source);
  BOOST_TEST(size(data) == 4000u);
  BOOST_TEST(texts[0].size() + texts[1].size() + texts[2].size() == 2000u);  // no text is in two parts
  BOOST_TEST(contains(data.source, "(10 % dev and 10 % test split off by hash)"));
  folder.write("all.tsv", "something new\t1\n" + table);  // other rows do not move a row
  for (const TextPair& pair : part_of(load(sentiment(all)), Part::test))
    BOOST_TEST((pair.source == "something new" || texts[2].contains(pair.source)));
  folder.write("test.tsv", "own test\t0\n");
  data = load(sentiment(folder.write("train.tsv", table)));
  BOOST_TEST(shown(data[Part::test]) == Texts{"0:own test"});
  BOOST_TEST(data[Part::train].size() + data[Part::dev].size() == 2000u);

  AgreementOptions options = agreement(folder.write("some.tsv", sentences));
  data = load(options);
  BOOST_TEST(size(data) == 2000u);
  for (const Part part : {Part::dev, Part::test}) BOOST_TEST(std::abs(int(data[part].size()) - 200) < 60);
  options.hard_subset = true;
  const LabelledTexts hard = load(options);
  BOOST_TEST(shown(hard[Part::train]) == shown(data[Part::train]));
  for (const TextPair& pair : hard[Part::test]) BOOST_TEST(pair.group > 0);
}

BOOST_AUTO_TEST_CASE(fewer_examples_are_part_of_more) {
  SentimentOptions options = sentiment("generated:train=300,test=50");
  std::set<std::string> before;
  for (const int limit : {10, 100, 250}) {
    options.train_examples = limit;
    const LabelledTexts data = load(options);
    BOOST_TEST(data[Part::train].size() == std::size_t(limit));
    BOOST_TEST(data[Part::test].size() == 50u);
    std::set<std::string> texts;
    for (const TextPair& pair : data[Part::train]) texts.insert(pair.source);
    for (const std::string& text : before) BOOST_TEST(texts.contains(text));
    before = texts;
  }
}

BOOST_AUTO_TEST_CASE(errors_say_what_was_looked_for_and_found) {
  const Folder folder;
  BOOST_TEST(
      contains(refusal(sentiment(folder / "none")), "none' does not exist; expected a file, a directory, or gen"));
  BOOST_TEST(contains(refusal(sentiment(folder.path)), "found nothing (the directory is empty)"));
  folder.write("train.xml", "<a/>\n");
  folder.write("sub/x", "");
  const std::string message = refusal(sentiment(folder.path));
  BOOST_TEST(contains(message, "looked for train.{txt,tsv,csv,jsonl}[.gz]"), message);
  BOOST_TEST(contains(message, "found sub/, train.xml"), message);
  BOOST_TEST(
      contains(refusal(agreement(folder.path)), "looked for *train.tsv[.gz] and agr_50_mostcommon_10K.tsv[.gz]"));
  folder.write("train.tsv", "a b\t1\nc\t0\n");
  folder.write("train.txt", "a\t1\n");
  BOOST_TEST(contains(refusal(sentiment(folder.path)),
                      "several train sets: keep one, and move the others away: train or train.tsv"));
  const Folder reviews;
  for (const char* file : {"train/pos/1.txt", "train/neg/1.txt", "dev/pos/1.txt", "dev/neg/1.txt", "val/pos/1.txt"})
    reviews.write(file, "a film\n");
  BOOST_TEST(contains(refusal(sentiment(reviews.path)), "both dev and val are dev sets; move one away"));
  std::filesystem::remove_all(reviews / "dev");
  std::filesystem::remove_all(reviews / "val");
  reviews.write("dev.tsv", "a film\tpos\n");
  BOOST_TEST(contains(refusal(sentiment(reviews.path)), "dev.tsv: is a file beside folders of reviews"));
  folder.write("a.txt", "just text\n");
  BOOST_TEST(contains(refusal(sentiment(folder / "a.txt")), "a.txt:1: 1 column (just text), expected 2"));
}

BOOST_AUTO_TEST_SUITE_END()
