// Tests of TextsToLabel, which finds the text column of a file to be labelled, and of the warning about test texts that
// are also training texts.
#include "experiments/support/data/texts_to_label.h"

#include <fstream>

#include <boost/test/unit_test.hpp>

#include "experiments/support/data/text_overlap.h"
#include "tests/files.h"

using namespace fovea;

namespace {

using Texts = std::vector<std::string>;

struct Read {
  Texts texts;
  std::string note, fault;
};

/// A file of this name and text, for a model of the classes neg and pos.
Read read(const std::string& name, const std::string& text, const std::string& columns = "auto") {
  Folder folder;
  std::ofstream(folder / name, std::ios::binary) << text;
  TextsToLabel reader(folder / name, {"neg", "pos"}, columns);
  Read result;
  try {
    for (std::string next; reader.next(next);) result.texts.push_back(next);
  } catch (const Error& error) {
    result.fault = error.what();
  }
  result.note = reader.note();
  for (std::string* message : {&result.note, &result.fault}) {
    if (const std::size_t at = message->find(name); at != std::string::npos) message->erase(0, at);
  }
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(texts_to_label)

BOOST_AUTO_TEST_CASE(lines_are_texts_as_they_are) {
  for (const char* name : {"new.txt", "new.tsv", "new"}) {
    const Read lines = read(name, "a good film\n\n bad\n");
    BOOST_TEST(lines.texts == (Texts{"a good film", "", " bad"}), name);
    BOOST_TEST(lines.note == "");
  }
  BOOST_TEST(read("new.txt", "two\tcolumns\nno label\n").texts == (Texts{"two\tcolumns", "no label"}));
  BOOST_TEST(read("new.txt", "sentence\nbad\n").texts == (Texts{"sentence", "bad"}));
  BOOST_TEST(read("new.txt", "").texts.empty());
  BOOST_TEST(read("new.txt", "a\n\xff\n").fault ==
             "new.txt:2: byte 1 is 0xff: not valid UTF-8 (another encoding? try iconv -t UTF-8)");
}

BOOST_AUTO_TEST_CASE(a_table_is_labelled_by_its_column_of_texts) {
  const Read named = read("new.tsv", "\nlabel\tsentence\npos\ta good film\n\nneg\tbad\n");
  BOOST_TEST(named.texts == (Texts{"", "a good film", "", "bad"}));  // blank lines stay lines
  BOOST_TEST(named.note == "new.tsv: labels are for column 2 of 2, 'sentence'");
  BOOST_TEST(read("new.tsv", "index\tsentence\n0\ta good film\n").texts == Texts{"a good film"});
  const Read beside = read("new.txt", "a good film\tpos\nbad\tmaybe\n");
  BOOST_TEST(beside.texts == (Texts{"a good film", "bad"}));
  BOOST_TEST(beside.note == "new.txt: labels are for column 1 of 2");
  BOOST_TEST(read("new.tsv", "pos\ta good film\n").texts == Texts{"a good film"});
  BOOST_TEST(read("new.tsv", "7\tgood film\tx\n", "2,3").texts == Texts{"good film"});
  BOOST_TEST(read("new.tsv", "id\ttitle\n7\tgood film\n", "title,grade").texts == Texts{"good film"});
  BOOST_TEST(read("new.tsv", "x\tgood film\n", "label-text").texts == Texts{"good film"});
  BOOST_TEST(read("new.tsv", "text\tlabel\na\tpos\nb\n").fault ==
             "new.tsv:3: 1 column, expected 2 as in the first line");
}

BOOST_AUTO_TEST_CASE(csv_and_json_lines_are_labelled_too) {
  BOOST_TEST(read("new.csv", "text,label\n\"good, very\",pos\n").texts == Texts{"good, very"});
  BOOST_TEST(read("new.csv", "\"good, very\"\nbad\n").texts == (Texts{"good, very", "bad"}));
  BOOST_TEST(read("new.csv", "a,b,c\n").fault ==
             "new.csv:1: 3 columns: which one is to be labelled? --columns TEXT,LABEL says it");
  const Read json = read("new.jsonl", "{\"id\": 1, \"text\": \"good\"}\n\n{\"text\": \"bad\"}\n");
  BOOST_TEST(json.texts == (Texts{"good", "", "bad"}));
  BOOST_TEST(json.note == "new.jsonl: labels are for the key 'text'");
  BOOST_TEST(read("new.jsonl", "{\"t\": \"good\"}\n", "t,l").texts == Texts{"good"});
  BOOST_TEST(
      contains(read("new.jsonl", "{\"t\": \"good\"}\n").fault, "new.jsonl:1: no key is called text or sentence"));
}

BOOST_AUTO_TEST_CASE(standard_input_is_labelled_line_by_line) {
  const int status = status_in_child([] {
    int typed[2];
    if (::pipe(typed) != 0 || ::dup2(typed[0], 0) != 0) return 9;
    TextsToLabel reader("-", {"neg", "pos"});
    std::string text;
    bool right = ::write(typed[1], "first\n", 6) == 6 && reader.next(text) && text == "first";
    right = right && ::write(typed[1], "second\n", 7) == 7 && reader.next(text) && text == "second";
    ::close(typed[1]);
    return right && !reader.next(text) ? 0 : 1;
  });
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(test_texts_in_the_training_set_are_counted) {
  ClassificationData data;
  for (int i = 0; i < 300; ++i) data.train.push_back({.text = "text " + std::to_string(i)});
  for (int i = 298; i < 498; ++i) data.test.push_back({.text = "text " + std::to_string(i)});
  for (int i = 299; i < 499; ++i) data.dev.push_back({.text = "text " + std::to_string(i)});
  BOOST_TEST(overlap_warning(data) == "2 of 200 test texts are also training texts");
  data.test = data.train;
  data.dev.resize(2);
  BOOST_TEST(overlap_warning(data) == "300 of 300 test texts and 1 of 2 development texts are also training texts");
  data.train.resize(100);
  data.test.erase(data.test.begin(), data.test.begin() + 100);
  BOOST_TEST(overlap_warning(data) == "");
}

BOOST_AUTO_TEST_CASE(test_pairs_in_the_training_set_are_counted) {
  TextOverlap pairs, texts;
  const std::string line = "a line of more than forty characters, of a book";
  for (const Part part : {Part::train, Part::dev, Part::test}) {
    pairs.add(part, {.source = "a", .target = part == Part::dev ? "b" : "c", .alignment = {}});
    for (const std::string& text : {line, line, std::string("Title")}) texts.add(part, {"", text, ""});
  }
  BOOST_TEST(pairs.warning("pairs") == "1 of 1 test pairs are also training pairs");
  BOOST_TEST(texts.warning("texts") == "2 of 3 test texts and 2 of 3 development texts are also training texts");
}

BOOST_AUTO_TEST_SUITE_END()
