#include "experiments/support/data/sentiment_data.h"

#include <fstream>
#include <set>

#include <boost/test/unit_test.hpp>
#include <fmt/format.h>

#include "experiments/support/program/program.h"
#include "tests/files.h"

using namespace fovea;

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

SentimentOptions options(const fs::path& data) {
  SentimentOptions result;
  result.data = data.string();
  return result;
}

std::string refusal(const SentimentOptions& options) {
  return message_of([&] { load(options); });
}

/// "label:text" of each example.
std::vector<std::string> shown(const std::vector<Example>& examples) {
  std::vector<std::string> result;
  for (const Example& example : examples) result.push_back(std::to_string(example.label) + ":" + example.text);
  return result;
}

using Texts = std::vector<std::string>;

const std::string good_tree = "(3 (2 It) (4 (2 's) (4 good)))\n";
const std::string bad_tree = "(1 (2 A) (1 (1 bad) (2 one\\/two)))\n";
const std::string neutral_tree = "(2 (2 a) (2 (2 -LRB-) (2 film)))\n";

void write_trees(const fs::path& folder) {
  write(folder / "train.txt", good_tree + bad_tree + "\n" + neutral_tree + good_tree);
  write(folder / "dev.txt", good_tree + neutral_tree);
  write(folder / "test.txt", bad_tree);
}

void write_lines(const fs::path& folder) {
  write(folder / "train.txt",
        "3 ||| It 's good\n0 ||| awful\n2 ||| a film\n1 ||| bad one\\/two\n4 ||| -LRB- great -RRB-\n");
  write(folder / "dev.txt", "3 ||| fine\n2 ||| a\n");
  write(folder / "test.txt", "1 ||| poor\n");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sentiment_data)

BOOST_AUTO_TEST_CASE(treebank_lines_have_five_classes_or_two) {
  Folder folder;
  write_lines(folder.path);
  SentimentOptions chosen = options(folder.path);
  ClassificationData data = load(chosen);
  BOOST_TEST(data.classes == (Texts{"negative", "positive"}));
  BOOST_TEST(shown(data.train) == (Texts{"1:It 's good", "0:awful", "0:bad one/two", "1:( great )"}));
  BOOST_TEST(shown(data.dev) == Texts{"1:fine"});
  BOOST_TEST(shown(data.test) == Texts{"0:poor"});

  chosen.classes = 5;
  data = load(chosen);
  BOOST_TEST(data.classes.size() == 5u);
  BOOST_TEST(shown(data.train) == (Texts{"3:It 's good", "0:awful", "2:a film", "1:bad one/two", "4:( great )"}));
  BOOST_TEST(shown(data.dev) == (Texts{"3:fine", "2:a"}));

  BOOST_TEST(shown(load(options(folder / "train.txt")).test) == Texts{"0:poor"});  // its siblings come with it
}

BOOST_AUTO_TEST_CASE(trees_give_each_phrase_once_and_test_on_sentences) {
  Folder folder;
  write_trees(folder / "trees");
  write_lines(folder / "classes");
  SentimentOptions chosen = options(folder.path);
  ClassificationData data = load(chosen);
  BOOST_TEST(shown(data.train) ==
             (Texts{"1:It 's good", "1:'s good", "1:good", "0:A bad one/two", "0:bad one/two", "0:bad"}));
  BOOST_TEST(shown(data.dev) == Texts{"1:It 's good"});
  BOOST_TEST(shown(data.test) == Texts{"0:A bad one/two"});

  chosen.classes = 5;
  data = load(chosen);
  BOOST_TEST(data.train.size() == 15u);  // of 20 nodes, 5 occur twice
  BOOST_TEST(shown(data.dev) == (Texts{"3:It 's good", "2:a ( film"}));

  chosen.phrases = Phrases::sentences;
  BOOST_TEST(shown(load(chosen).train) == (Texts{"3:It 's good", "1:A bad one/two", "2:a ( film", "3:It 's good"}));
  chosen.format = SentimentFormat::lines;
  BOOST_TEST(load(chosen).train.size() == 5u);
}

BOOST_AUTO_TEST_CASE(broken_trees_are_refused_with_line_and_column) {
  Folder folder;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"(3 good", ":2: column 8: the line ends inside the tree: 1 '('"},
      {"(3 good))", ":2: column 9: text after the end of the tree"},
      {"(3 good) (3 x)", ":2: column 10: text after the end of the tree"},
      {"(7 good)", ":2: column 2: expected a label 0-4"},
      {"(good)", ":2: column 2: expected a label 0-4"},
      {"(3)", ":2: column 2: expected a label 0-4"},
      {"(3 )", ":2: column 4: a node without a word"},
      {"(3 two words)", ":2: column 8: a node with two words"},
      {"(3 (2 a) b)", ":2: column 10: a node with two words, or with a word and a child"},
      {"(3 a (2 b))", ":2: column 6: a node has a word and a child"},
      {"good", ":2: column 1: expected '('"},
      {std::string(100'000, '('), ":2: column 2: expected a label"}};
  for (const auto& [tree, expected] : cases) {
    write(folder / "train.txt", good_tree + tree + "\n");
    const std::string message = refusal(options(folder.path));
    BOOST_TEST(contains(message, "train.txt" + expected), message);
  }
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "(2 ";
  write(folder / "train.txt", deep + "\n");
  BOOST_TEST(contains(refusal(options(folder.path)), "a tree of more than 8192 nodes"));
}

BOOST_AUTO_TEST_CASE(broken_label_lines_are_refused) {
  Folder folder;
  const std::vector<std::pair<std::string, std::string>> cases = {{"5 ||| x", ":2: label '5 ', expected 0-4"},
                                                                  {"||| x", ":2: label '', expected 0-4"},
                                                                  {"3 | x", ":2: no '|||'"},
                                                                  {"3 ||| ", ":2: the sentence is empty"}};
  for (const auto& [line, expected] : cases) {
    write(folder / "train.txt", "1 ||| good\n" + line + "\n");
    const std::string message = refusal(options(folder.path));
    BOOST_TEST(contains(message, "train.txt" + expected), message);
  }
  write_lines(folder.path);
  write(folder / "train.txt", "1 ||| good\n0 ||| bad\n");
  BOOST_TEST(
      contains(refusal(options(folder.path)), "dev.txt: 'fine' has the label 3; the training labels are 0 and 1"));
  for (const char* part : {"dev.txt", "test.txt"}) write(folder / part, "0 ||| dull\n1 ||| fine\n");
  BOOST_TEST(load(options(folder.path)).train.size() == 2u);  // SST-2 already
  SentimentOptions five = options(folder.path);
  five.classes = 5;
  BOOST_TEST(contains(refusal(five), "the labels are 0 and 1 only, --classes asks for 5"));
}

BOOST_AUTO_TEST_CASE(a_table_is_understood_whatever_its_order_and_header) {
  const std::string rows = "a very good film\tpos\nbad\tneg\nthe worst film\tneg\n";
  const std::string turned = "pos\ta very good film\nneg\tbad\nneg\tthe worst film\n";
  for (const std::string& text :
       {rows, turned, "sentence\tlabel\n" + rows, "Label\tText\n" + turned, "\n" + rows + "\n"}) {
    Folder folder;
    write(folder / "train.tsv", text);
    write(folder / "val.tsv", text);
    write(folder / "test.tsv", text);
    const ClassificationData data = load(options(folder.path));
    BOOST_TEST(data.classes == (Texts{"neg", "pos"}));
    const Texts expected = {"1:a very good film", "0:bad", "0:the worst film"};
    BOOST_TEST(shown(data.train) == expected, text);
    BOOST_TEST(shown(data.dev) == expected);
    BOOST_TEST(shown(data.test) == expected);
  }
}

BOOST_AUTO_TEST_CASE(number_labels_are_in_the_order_of_numbers) {
  Folder folder;
  const std::string rows = "a b\t10\nc\t9\nd e f\t-1\ng\t9\n";
  for (const char* name : {"train.tsv", "dev.tsv", "test.tsv"}) write(folder / name, "text\tstars\n" + rows);
  const ClassificationData data = load(options(folder.path));
  BOOST_TEST(data.classes == (Texts{"-1", "9", "10"}));  // the header is the only label that is no number
  BOOST_TEST(data.train.size() == 4u);
  const std::string large = rows + "h\t99999999999999999999\n";  // a label as any other
  for (const char* name : {"train.tsv", "dev.tsv", "test.tsv"}) write(folder / name, "text\tstars\n" + large);
  BOOST_TEST(load(options(folder.path)).classes == (Texts{"-1", "9", "10", "99999999999999999999"}));
}

BOOST_AUTO_TEST_CASE(order_and_header_can_be_asked_for) {
  Folder folder;
  for (const char* name : {"train.tsv", "dev.tsv", "test.tsv"}) write(folder / name, "text\tlabel\nlabel\tx\n");
  SentimentOptions chosen = options(folder.path);
  chosen.header = Header::no;
  chosen.columns = label_before_text;
  BOOST_TEST(shown(load(chosen).train) == (Texts{"1:label", "0:x"}));
  chosen.columns = text_before_label;
  BOOST_TEST(shown(load(chosen).train) == (Texts{"0:text", "1:label"}));
  chosen.columns = automatic_columns;
  BOOST_TEST(contains(refusal(chosen), "say --columns text-label or label-text"));
  chosen.header = Header::yes;
  BOOST_TEST(contains(refusal(chosen), "all 1 training examples are of the class 'x'"));
}

BOOST_AUTO_TEST_CASE(a_header_of_unknown_names_is_not_an_example) {
  Folder folder;
  std::string rows;
  for (int k = 0; k < 30; ++k) rows += fmt::format("a cat of size {}\t{}\n", k, k % 2 ? "blue" : "green");
  write(folder / "colours.tsv", "words\tmood\n" + rows);
  SentimentOptions chosen = options(folder / "colours.tsv");
  BOOST_TEST(contains(refusal(chosen),
                      "colours.tsv:1: looks like a header (words, mood): the label 'mood' is on no other line; give "
                      "--header yes if the line names the columns, --header no if it is an example"));
  const auto examples = [&] {
    const ClassificationData data = load(chosen);
    return data.train.size() + data.dev.size() + data.test.size();
  };
  chosen.header = Header::yes;
  BOOST_TEST(examples() == 30u);
  chosen.header = Header::no;
  BOOST_TEST(examples() == 31u);
  chosen.header = Header::automatic;
  chosen.columns = "words,mood";
  BOOST_TEST(examples() == 30u);
  write(folder / "colours.tsv", rows);
  chosen.columns = automatic_columns;
  BOOST_TEST(examples() == 30u);
  write(folder / "colours.tsv", "words\tmood\n");
  BOOST_TEST(contains(refusal(chosen), "colours.tsv: one line only (words, mood); expected examples of two labels"));
  write(folder / "colours.tsv", "sentence\tlabel\n");
  for (Header header : {Header::automatic, Header::yes}) {
    chosen.header = header;
    BOOST_TEST(contains(refusal(chosen), "colours.tsv: the file has a header (sentence, label), but no line below it"));
  }
}

BOOST_AUTO_TEST_CASE(a_header_chooses_among_more_columns) {
  Folder folder;
  const std::string text = "id\tsentence\tscore\tlabel\n1\tgood film\t.9\tp\n2\tbad film\t.1\tn\n";
  for (const char* name : {"x_train.tsv", "x_dev.tsv", "x_test.tsv"}) write(folder / name, text);
  BOOST_TEST(shown(load(options(folder.path)).train) == (Texts{"1:good film", "0:bad film"}));
  BOOST_TEST(shown(load(options(folder / "x_train.tsv")).test) == (Texts{"1:good film", "0:bad film"}));
}

BOOST_AUTO_TEST_CASE(columns_are_chosen_by_name_or_number) {
  const std::string rows = "1\tgood film\t.9\tp\n2\tbad film\t.1\tn\n", header = "id\ttitle\tscore\tjudgement\n";
  for (const auto& [text, columns] :
       {std::pair(header + rows, "title,judgement"), std::pair(header + rows, "2,4"), std::pair(rows, "2,4")}) {
    Folder folder;
    for (const char* name : {"train.tsv", "dev.tsv", "test.tsv"}) write(folder / name, text);
    SentimentOptions chosen = options(folder.path);
    chosen.columns = columns;
    if (text != header + rows || chosen.columns != "2,4") {
      const ClassificationData data = load(chosen);
      BOOST_TEST(shown(data.train) == (Texts{"1:good film", "0:bad film"}), columns);
      BOOST_TEST(shown(data.test) == shown(data.train));
    }
    chosen.header = text == rows ? Header::no : Header::yes;
    BOOST_TEST(shown(load(chosen).dev) == (Texts{"1:good film", "0:bad film"}), columns);
    chosen.columns = "title,rating";
    chosen.header = Header::automatic;
    BOOST_TEST(contains(refusal(chosen), text == rows
                                             ? "train.tsv:1: there is no column 'title'; the first line has"
                                             : "train.tsv:1: there is no column 'rating'; the first line has"));
    chosen.columns = "2,9";
    BOOST_TEST(contains(refusal(chosen), "train.tsv:1: there is no column 9; the first line has 4 columns: "));
    chosen.columns = "2";
    BOOST_TEST(contains(refusal(chosen), "--columns 2: expected auto, text-label, label-text, or the columns of text"));
    chosen.columns = "2,2";
    BOOST_TEST(contains(refusal(chosen), "--columns 2,2: one column cannot be text and label"));
  }
}

BOOST_AUTO_TEST_CASE(csv_and_json_lines_are_tables) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"csv", "label,text\np,\"good, \"\"very\"\"\nfilm\"\nn,bad film\n"},
      {"jsonl", R"({"text": "good, \"very\"\nfilm", "label": "p"})"
                "\n"
                R"({"label": "n", "text": "bad film"})"
                "\n"}};
  for (const auto& [ending, text] : files) {
    Folder folder;
    for (const char* name : {"train.", "valid.", "test."}) write(folder / (name + ending), text);
    for (const fs::path& path : {folder.path, folder / ("train." + ending)}) {
      SentimentOptions chosen = options(path);
      for (const char* columns : {"auto", "text,label"}) {
        chosen.columns = columns;
        const ClassificationData data = load(chosen);
        BOOST_TEST(shown(data.train) == (Texts{"1:good, \"very\" film", "0:bad film"}));
        BOOST_TEST(shown(data.dev) == shown(data.train));
        BOOST_TEST(shown(data.test) == shown(data.train));
        BOOST_TEST(data.classes == (Texts{"n", "p"}));
        BOOST_TEST(contains(data.source, ending == "jsonl" ? "train.jsonl, valid.jsonl, test.jsonl: JSON lines, text"
                                                           : "train.csv, valid.csv, test.csv: table, "));
      }
    }
  }
  Folder folder;
  const std::string numbers = "{\"t\": \"a b\", \"stars\": 10}\n{\"t\": \"c\", \"stars\": 9}\n";
  for (const char* name : {"train.jsonl", "dev.jsonl", "test.jsonl"}) write(folder / name, numbers);
  SentimentOptions chosen = options(folder.path);
  BOOST_TEST(contains(refusal(chosen),
                      "train.jsonl: which keys are text and label? Say --columns TEXT,LABEL with two of t, stars"));
  chosen.columns = "t,stars";
  BOOST_TEST(load(chosen).classes == (Texts{"9", "10"}));
  chosen.columns = "t,star";
  BOOST_TEST(
      contains(refusal(chosen), "train.jsonl:1: there is no key 'star'; the keys are t, stars; did you mean 'stars'?"));
}

BOOST_AUTO_TEST_CASE(a_name_of_two_columns_is_refused) {
  Folder folder;
  const auto message_for = [&](const std::string& header) {
    write(folder / "train.tsv", header + "\na b\tx\t1\nc\ty\t0\n");
    return refusal(options(folder.path));
  };
  BOOST_TEST(contains(message_for("sentence\tlabel\tlabel"), "train.tsv:1: columns 2 and 3 are both called 'label'"));
  BOOST_TEST(contains(message_for("sentence\tsentence\tlabel"), "columns 1 and 2 are both called 'sentence'"));
  write(folder / "train.tsv", "sentence\tid\tlabel\tid\na b\t1\t0\t1\n");
  BOOST_TEST(contains(refusal(options(folder.path)), "train.tsv:1: columns 2 and 4 are both called 'id'"));
  write(folder / "train.tsv", "label\tsubset\ttext\ttext\n1\ttrain\ta\tb\n");
  BOOST_TEST(contains(refusal(options(folder.path)), "train.tsv:1: columns 3 and 4 are both called 'text'"));
}

BOOST_AUTO_TEST_CASE(many_classes_are_described_by_the_first_ones) {
  ClassificationData data;
  data.source = "x.tsv";
  for (int i = 0; i < 200; ++i) data.classes.push_back("c" + std::to_string(i));
  BOOST_TEST(describe(data) ==
             "x.tsv: 0 train, 0 dev, 0 test, 200 classes: c0, c1, c2, c3, c4, c5, c6, c7 and 192 more");
  data.classes = {"a", "b"};
  BOOST_TEST(describe(data) == "x.tsv: 0 train, 0 dev, 0 test, classes a, b");
}

BOOST_AUTO_TEST_CASE(broken_tables_are_refused_with_their_line) {
  Folder folder;
  const std::string good = "a b c\t1\nd e\t0\nf\t1\n";
  const auto message_for = [&](const std::string& text) {
    write(folder / "train.tsv", text);
    return refusal(options(folder.path));
  };
  BOOST_TEST(contains(message_for(good + "a\tb\tc\n"), "train.tsv:4: 3 columns, expected 2 (sentence, label)"));
  BOOST_TEST(contains(message_for(good + "alone\n"), "train.tsv:4: 1 column, expected 2"));
  BOOST_TEST(contains(message_for("good film\tpos\nbad film neg\n"), "train.tsv:2: 1 column, expected 2"));
  BOOST_TEST(contains(message_for(good + "x\t \n"), "train.tsv:4: the label is empty"));
  BOOST_TEST(contains(message_for(good + " \t1\n"), "train.tsv:4: the sentence is empty"));
  BOOST_TEST(contains(message_for("1\tx\ty\n"), "train.tsv:1: 3 columns (1, x, y), expected 2"));
  BOOST_TEST(contains(message_for("just text\n"), "train.tsv:1: neither an SST tree"));
  BOOST_TEST(contains(message_for(""), "train.tsv: the file is empty"));

  write(folder / "dev.tsv", "x\t1\ny\t2\n");
  const std::string unknown = message_for(good);
  BOOST_TEST(contains(unknown, "dev.tsv:2: label '2' does not occur in "), unknown);
  fs::remove(folder / "dev.tsv");

  write(folder / "test.tsv", "index\tsentence\n0\tgood\n");
  BOOST_TEST(contains(message_for("sentence\tlabel\n" + good), "no label (GLUE's hidden test labels?)"));
  fs::remove(folder / "test.tsv");

  std::string many;
  for (int i = 0; i < 1002; ++i) many += fmt::format("word\tlabel{}\n", i);
  write(folder / "train.tsv", many);
  SentimentOptions wrong_order = options(folder.path);
  wrong_order.columns = text_before_label;
  BOOST_TEST(contains(refusal(wrong_order), "train.tsv:1001: more than 1000 different labels"));
  SentimentOptions three = options(folder.path);
  three.classes = 3;
  write(folder / "train.tsv", good);
  BOOST_TEST(contains(refusal(three), "2 different labels (0, 1), --classes asks for 3"));
}

BOOST_AUTO_TEST_CASE(missing_parts_are_split_off_by_hash) {
  Folder folder;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += fmt::format("sentence number {}\t{}\n", i, i % 2);
  write(folder / "all.tsv", text + text);
  ClassificationData data = load(options(folder / "all.tsv"));
  BOOST_TEST(data.train.size() + data.dev.size() + data.test.size() == 4000u);
  BOOST_TEST(std::abs(static_cast<int>(data.dev.size()) - 400) < 80);
  BOOST_TEST(std::abs(static_cast<int>(data.test.size()) - 400) < 80);
  std::set<std::string> train, test;
  for (const Example& example : data.train) train.insert(example.text);
  for (const Example& example : data.dev) BOOST_TEST(!train.contains(example.text));
  for (const Example& example : data.test) {
    BOOST_TEST(!train.contains(example.text));
    test.insert(example.text);
  }
  BOOST_TEST(contains(data.source, "10 % dev and 10 % test split off"));

  write(folder / "all.tsv", "something new\t1\n" + text);  // other rows do not move a row
  for (const Example& example : load(options(folder / "all.tsv")).test) {
    BOOST_TEST((example.text == "something new" || test.contains(example.text)));
  }

  write(folder / "test.tsv", "own test\t0\n");
  write(folder / "train.tsv", text);
  data = load(options(folder / "train.tsv"));
  BOOST_TEST(shown(data.test) == Texts{"0:own test"});
  BOOST_TEST(data.train.size() + data.dev.size() == 2000u);
}

BOOST_AUTO_TEST_CASE(fewer_examples_are_part_of_more) {
  SentimentOptions chosen;
  chosen.data = "generated:train=300,test=50";
  std::set<std::string> before;
  for (const int limit : {10, 100, 250}) {
    chosen.train_examples = limit;
    const ClassificationData data = load(chosen);
    BOOST_TEST(data.train.size() == static_cast<std::size_t>(limit));
    BOOST_TEST(data.test.size() == 50u);
    std::set<std::string> texts;
    for (const Example& example : data.train) texts.insert(example.text);
    for (const std::string& text : before) BOOST_TEST(texts.contains(text));
    before = texts;
  }
}

BOOST_AUTO_TEST_CASE(imdb_reads_from_its_directories) {
  Folder folder;
  const fs::path root = folder / "aclImdb";
  write(root / "train/pos/0_9.txt", "Good.<br /><br />Very good");
  write(root / "train/pos/10_8.txt", "ten");
  write(root / "train/pos/2_8.txt", "two\nlines\n");
  write(root / "train/neg/1_1.txt", "Bad<BR>one <b>x</b> < br");
  write(root / "train/unsup/1_0.txt", "unlabelled");
  write(root / "test/pos/1_7.txt", "fine");
  write(root / "test/neg/1_3.txt", "poor<br/>");
  write(root / "val/pos/1_7.txt", "dev good");
  write(root / "val/neg/1_3.txt", "dev bad");
  for (const fs::path& path : {root, folder.path}) {
    const ClassificationData data = load(options(path));
    BOOST_TEST(shown(data.train) == (Texts{"0:Bad one <b>x</b> < br", "1:Good. Very good", "1:two lines", "1:ten"}));
    BOOST_TEST(shown(data.dev) == (Texts{"0:dev bad", "1:dev good"}));
    BOOST_TEST(shown(data.test) == (Texts{"0:poor", "1:fine"}));
    BOOST_TEST(data.classes == (Texts{"negative", "positive"}));
  }
  fs::remove_all(root / "test/neg");
  BOOST_TEST(contains(refusal(options(root)), "test/neg: no such directory"));
  write(root / "test/neg/readme", "");
  BOOST_TEST(contains(refusal(options(root)), "test/neg: no .txt file; it has readme"));
  write(root / "test/neg/1_1.txt", "\xff");
  BOOST_TEST(contains(refusal(options(root)), "1_1.txt:1: byte 1 is 0xff"));
  write(root / "test/neg/1_1.txt", " <br />\n");
  BOOST_TEST(contains(refusal(options(root)), "1_1.txt: the review is empty"));
}

BOOST_AUTO_TEST_CASE(imdb_reads_from_tables) {
  Folder folder;
  const std::string header = "label\trating\tid\tsubset\ttext\n";
  write(folder / "imdb_train.tsv", header + "1\t9\t1\ttrain\tgood<br />one\n0\t1\t2\ttrain\tbad\n0\t1\t3\tval\tpoor\n");
  write(folder / "imdb_test.tsv", header + "1\t9\t1\ttest\tfine\n0\t1\t2\ttest\tdull\n");
  const ClassificationData data = load(options(folder.path));
  BOOST_TEST(shown(data.train) == (Texts{"1:good one", "0:bad"}));
  BOOST_TEST(shown(data.dev) == Texts{"0:poor"});
  BOOST_TEST(shown(data.test) == (Texts{"1:fine", "0:dull"}));
  write(folder / "imdb_test.tsv", header + "2\t9\t1\ttest\tfine\n");
  BOOST_TEST(contains(refusal(options(folder.path)), "imdb_test.tsv:2: label '2', expected 0 or 1"));
  write(folder / "imdb_test.tsv", header + "1\t9\ttest\tfine\n");
  BOOST_TEST(contains(refusal(options(folder.path)), "imdb_test.tsv:2: 4 columns, expected 5"));
  write(folder / "imdb_test.tsv", "text\nfine\n");
  BOOST_TEST(contains(refusal(options(folder.path)), "imdb_test.tsv:1: columns text, expected a header"));
}

BOOST_AUTO_TEST_CASE(errors_say_what_was_looked_for_and_found) {
  Folder folder;
  BOOST_TEST(contains(refusal(options(folder / "none")), "none' does not exist; expected a file, a directory, or gen"));
  BOOST_TEST(contains(refusal(options(folder.path)), "found nothing (the directory is empty)"));
  write(folder / "train.xml", "<a/>\n");
  fs::create_directories(folder / "sub");
  const std::string message = refusal(options(folder.path));
  BOOST_TEST(contains(message, "looked for train.{txt,tsv,csv,jsonl}[.gz]"), message);
  BOOST_TEST(contains(message, "found sub/, train.xml"), message);
  write(folder / "train.tsv", "a b\t1\nc\t0\n");
  write(folder / "train.txt", "1 ||| a\n");
  const std::string two = refusal(options(folder.path));
  BOOST_TEST(contains(two, "which is meant, 'train.tsv' or 'train.txt'?"), two);
}

BOOST_AUTO_TEST_CASE(flags_set_the_options) {
  const char* arguments[] = {"sentiment", "--data=x.tsv", "--format",         "table",     "--classes",
                             "5",         "--phrases",    "sentences",        "--columns", "label-text",
                             "--header",  "no",           "--train-examples", "1e3"};
  SentimentOptions chosen;
  Cli cli("sentiment", static_cast<int>(std::size(arguments)), arguments);
  cli.add(chosen);
  cli.parse();
  BOOST_TEST(chosen.data == "x.tsv");
  BOOST_TEST((chosen.format == SentimentFormat::table && chosen.phrases == Phrases::sentences));
  BOOST_TEST((chosen.columns == "label-text" && chosen.header == Header::no));
  BOOST_TEST(chosen.classes == 5);
  BOOST_TEST(chosen.train_examples == 1000);
}

BOOST_AUTO_TEST_CASE(further_test_sets_are_files_with_the_classes_of_the_training_set) {
  Folder folder;
  write_trees(folder / "sst");
  write(folder / "news.txt", bad_tree + good_tree + bad_tree);
  write_lines(folder / "other");  // of a directory the test part
  write(folder / "kinds.tsv", "a text\tfact\nanother one\topinion\nthe third\tfact\n");
  SentimentOptions with = options(folder / "sst");
  with.also_test = (folder / "news.txt").string() + "," + (folder / "other").string();
  const ClassificationData data = load(with);
  BOOST_TEST(data.more_tests.size() == 2u);
  BOOST_TEST(data.more_tests[0].name == "news");
  BOOST_TEST((shown(data.more_tests[0].examples) == Texts{"0:A bad one/two", "1:It 's good", "0:A bad one/two"}));
  BOOST_TEST((shown(data.more_tests[1].examples) == Texts{"0:poor"}));
  BOOST_TEST((shown(data.test) == shown(load(options(folder / "sst")).test)));
  with.also_test = (folder / "kinds.tsv").string();
  const std::string message = refusal(with);
  BOOST_TEST(contains(message, "the training set has no label 'fact'; it has "), message);
  with.also_test = (folder / "none").string();
  BOOST_TEST(contains(refusal(with), "does not exist"));
}

BOOST_AUTO_TEST_SUITE_END()
