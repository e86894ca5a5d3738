// Tables, JSON lines and lines, record by record: which fields are read, and how each fault is refused.
#include "experiments/support/data/records.h"

#include <boost/test/unit_test.hpp>

#include "tests/files.h"

using namespace fovea;

namespace {

using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

const Role text{.what = "TEXT", .names = {"text", "sentence"}};
const Role label{.what = "LABEL", .names = {"label"}, .takes_numbers = true};
const Role part{.what = "PART", .names = {"part"}, .is_optional = true};

struct Read {
  Rows rows = {};
  std::string fields = {}, fault = {};  ///< the fault without the folder
};

Read read(const std::string& name, const std::string& content, std::vector<Role> roles, RecordFields fields = {},
          bool has_more = false) {
  const Folder folder;
  Read result;
  try {
    RecordReader reader(folder.write(name, content), record_format(name), std::move(roles), fields, has_more);
    result.fields = reader.description();
    for (Row row; reader.next(row);) result.rows.push_back(row);
  } catch (const Error& error) {
    result.fault = folder.without(error.what());
  }
  return result;
}

/// The fault of a file of one text, whose field is chosen.
std::string fault(const std::string& name, const std::string& content, const std::string& field,
                  Header header = Header::automatic) {
  return read(name, content, {text}, {{field}, header}).fault;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(records)

BOOST_AUTO_TEST_CASE(the_ending_says_the_format) {
  for (const char* name : {"a.tsv", "a.TSV.gz", "a.tab"}) BOOST_TEST((record_format(name) == RecordFormat::tsv));
  for (const char* name : {"a.csv", "x/a.b.csv.gz"}) BOOST_TEST((record_format(name) == RecordFormat::csv));
  for (const char* name : {"a.jsonl", "a.ndjson.gz"}) BOOST_TEST((record_format(name) == RecordFormat::jsonl));
  for (const char* name : {"a.conllu", "a.conll.gz"}) BOOST_TEST((record_format(name) == RecordFormat::conll));
  for (const char* name : {"a", "a.txt", "tsv", "a.gz"}) BOOST_TEST((record_format(name) == RecordFormat::lines));
}

BOOST_AUTO_TEST_CASE(one_rule_says_which_fields_are_read) {
  const auto automatic = Header::automatic, yes = Header::yes, no = Header::no;
  struct Case {
    const char *name, *content;
    Row chosen;
    Header header;
    Rows expected;
    const char* fields;
  };
  const std::vector<Case> cases{
      // chosen by number, by name
      {"t.tsv", "a\tb\n\nc\td\n", {"2", "1"}, automatic, {{"b", "a"}, {"d", "c"}}, "columns 2, 1"},
      {"t.tsv", "x\ty\na\tb\n", {"y", "x"}, automatic, {{"b", "a"}}, "columns y, x"},
      {"t.tsv", "x\ty\na\tb\n", {"2", "1"}, yes, {{"b", "a"}}, "columns 2, 1"},
      {"t.tsv", "2\t1\na\tb\n", {"1", "2"}, yes, {{"b", "a"}}, "columns 1, 2"},  // names
      {"t.tsv", "1\t2\na\tb\n", {"2", "1"}, automatic, {{"2", "1"}, {"b", "a"}}, "columns 2, 1"},
      // found by what columns are called
      {"t.tsv", "id\tLabel\tText\n1\ta\tb\n", {}, automatic, {{"b", "a"}}, "columns Text, Label"},
      {"t.csv", "mood,sentence\na,b\n", {}, automatic, {{"b", "a"}}, "columns sentence, mood"},
      {"t.tsv", "text\tlabel\n", {}, no, {{"text", "label"}}, "columns 1, 2"},
      // or because there are no others
      {"t.tsv", "x\ty\na\tb\n", {}, automatic, {{"x", "y"}, {"a", "b"}}, "columns 1, 2"},
      {"t.tsv", "x\ty\na\tb\n", {}, yes, {{"a", "b"}}, "columns 1, 2"},
      {"t.jsonl", "{\"label\": 1, \"text\": \"b\"}\n", {}, automatic, {{"b", "1"}}, "keys text, label"},
      {"t.jsonl", "{\"\\t\": \"a\", \"text\": \"b\"}\n", {}, automatic, {{"b", "a"}}, "keys text, ␉"},
      {"t.jsonl", "{\"a\": {\"b\": \"x\"}, \"c\": true}\n", {"a.b", "c"}, automatic, {{"x", "true"}}, "keys a.b, c"}};
  for (const Case& one : cases) {
    const Read got = read(one.name, one.content, {text, label}, {one.chosen, one.header});
    BOOST_TEST(got.fault == "", one.content);
    BOOST_TEST((got.rows == one.expected), one.content);
    BOOST_TEST(got.fields == one.fields, one.content);
  }
  BOOST_TEST((read("t.tsv", "label\tpart\ttext\na\tdev\tb\n", {text, label, part}).rows == Rows{{"b", "a", "dev"}}));
  BOOST_TEST((read("t.tsv", "b\ta\n", {text, label, part}).rows == Rows{{"b", "a", ""}}));
  BOOST_TEST((read("t.tsv", "a\tb\tc\n", {text, label}, {{"1", "3", "2"}}, true).rows == Rows{{"a", "c", "b"}}));
  BOOST_TEST((read("t.txt", "a\tb\n\nc\n", {text}, {{"2"}}).rows == Rows{{"a\tb"}, {""}, {"c"}}));  // whole lines
}

BOOST_AUTO_TEST_CASE(fields_that_cannot_be_found_are_refused) {
  const std::vector<std::tuple<const char*, const char*, Row, const char*>> cases{
      {"t.tsv", "x\ty\n", {"z", "x"}, "t.tsv:1: there is no column 'z'; the columns are x, y"},
      {"t.tsv", "x\ty\n", {"3", "1"}, "t.tsv:1: there is no column 3; there are 2 columns"},
      {"t.tsv", "x\ty\tx\n", {"y", "x"}, "t.tsv:1: two columns are called 'x'"},
      {"t.tsv", "text\ttext\tlabel\n", {}, "t.tsv:1: two columns are called 'text'"},
      {"t.tsv",
       "a\tb\tc\n",
       {},
       "t.tsv:1: 3 columns (a, b, c), expected 2 (TEXT,LABEL); --columns TEXT,LABEL chooses them by number from 1"},
      {"t.jsonl",
       "{\"t\": \"a\", \"s\": 1}\n",
       {},
       "t.jsonl:1: 2 keys (s, t), expected 2 (TEXT,LABEL) with names that are known"},
      {"t.jsonl", "{\"text\": \"a\", \"\\n\": []}\n", {}, "t.jsonl:1: '␊' is a JSON array, expected a string"},
      {"t.jsonl", "{\"text\": \"a\", \"\\u001b\": \"b\"}\n{\"text\": \"c\"}\n", {}, "t.jsonl:2: there is no key '␛'"},
      {"t.tsv", "a\tb\n", {"1"}, "--columns 1: 1 field, expected 2 (TEXT,LABEL)"},
      {"t.tsv", "a\tb\n", {"2", "2"}, "--columns 2,2: '2' is given twice; TEXT,LABEL are different fields"},
      {"t.jsonl", "{\"a\": \"b\"}\n", {"a", "a"}, "--columns a,a: 'a' is given twice; TEXT,LABEL are different fields"},
      {"t.tsv", "\n", {}, "t.tsv: the file is empty"},
      {"t.jsonl",
       "{\"text\": \"x\", \"n\": 1}\n",
       {"txt", "n"},
       "t.jsonl:1: there is no key 'txt'; the keys are n, text; did you mean 'text'?"}};
  for (const auto& [name, content, chosen, expected] : cases) {
    const std::string found = read(name, content, {text, label}, {chosen}).fault;
    BOOST_TEST(found.starts_with(expected), found);
  }
}

BOOST_AUTO_TEST_CASE(commas_quotes_and_line_breaks_stand_in_quoted_columns) {
  BOOST_TEST((read("t.csv", "a,\"b, \"\"c\"\"\"\r\n\"\",\"two\nlines\"\nx y,say \"z\"\n", {text, label}).rows ==
              Rows{{"a", "b, \"c\""}, {"", "two lines"}, {"x y", "say \"z\""}}));
  BOOST_TEST((read("t.csv", "\"\"\"c\"\"\",\"\"\"\"\n\"\",say \"z\n", {text, label}).rows ==
              Rows{{"\"c\"", "\""}, {"", "say \"z"}}));
  BOOST_TEST((read("t.tsv", "\"a\tb\"\n", {text}, {{"1"}}).rows == Rows{{"\"a"}}));  // quotes are characters
  BOOST_TEST((read("t.jsonl", "{\"a\": \"x\\r\\ny\"}\n \n{\"a\": \"\"}", {text}, {{"a"}}).rows == Rows{{"x y"}, {""}}));
}

BOOST_AUTO_TEST_CASE(faulty_records_are_refused_with_their_line) {
  std::string wide = "{\"k\":1";
  for (int k = 0; k < 200'000; ++k) wide += ",\"" + std::to_string(k) + "\":1";
  const std::vector<std::tuple<const char*, std::string, const char*>> cases{
      {"t.tsv", "a\tb\n\nc\n", "3: 1 column, expected 2 as in the first line"},
      {"t.tsv", "a\tb\nc\td\xff\n", "2: byte 4 is 0xff: not valid UTF-8 (another encoding? try iconv -t UTF-8)"},
      {"t.csv", "a,b\nc,\"two\nlines\"x\n", "2: column 2: 'x' behind the closing quote; quotes in a field are doubled"},
      {"t.csv", "a,b\n\"c\"\x03,d\n", "2: column 1: '␃' behind the closing quote"},
      {"t.jsonl", "{\"1\": {\"\\t\": 1, \"\\t\": 2}}\n", "1: the key '␉' occurs twice"},
      {"t.csv", "a,b\n\"c,d\ne,f\n", "2: column 1: the opening quote has no closing one"},
      {"t.csv", "a,b\n \"c\", \"d\"\n",
       "2: column 1: spaces outside of the quotes; write them inside, or leave them out"},
      {"t.csv", "a,b\n\"c\nd\",e\nf\n", "4: 1 column, expected 2 as in the first line"},
      {"t.jsonl", "{\"1\": 3}\n", "1: '1' is a JSON number, expected a string"},
      {"t.jsonl", "{\"1\": null}\n", "1: '1' is null, expected a string"},
      {"t.json", "3\n", "1: a JSON number, expected an object like {\"text\": ...}"},
      {"t.jsonl", "[1]\n",
       "1: a JSON array, expected an object on each line; jq -c '.[]' FILE writes an array's objects"},
      {"t.jsonl", "{\"1\": \"x\"}\n{\"1\": \n", "2: not JSON: column "},
      {"t.jsonl", "{\"1\": \"x\\u0000\"}\n", "1: a text has the character \\u0000, which"},
      {"t.jsonl", wide + "}\n", "1: '1' is a JSON number"},
      {"t.jsonl", "{\"1\": \"x\", \"a\": {\"1\": 2}, \"1\": \"y\"}\n", "1: the key '1' occurs twice"},
      {"t.jsonl", "{\"1\": 1e999}\n", "1: not JSON: number overflow"},
      {"t.jsonl", "{\"1\":" + std::string(100'000, '['), "1: not JSON: column 100006"}};
  for (const auto& [name, content, expected] : cases) {
    const std::string found = fault(name, content, "1");
    BOOST_TEST(found.starts_with(std::string(name) + ":" + expected), found);
  }
}

BOOST_AUTO_TEST_CASE(a_faulty_record_is_passed_over_to_its_end) {
  const Folder folder;
  const auto good_rows = [&](const std::string& name, const std::string& content) {
    RecordReader reader(folder.write(name, content), record_format(name), {text, label}, {{"1", "2"}});
    Rows rows;
    for (Row row;;) try {
        if (!reader.next(row)) return rows;
        rows.push_back(row);
      } catch (const RecordFault&) {
        rows.push_back({"fault"});
      }
  };
  const Rows expected{{"a", "b"}, {"fault"}, {"c", "d"}};
  BOOST_TEST((good_rows("utf8.conll", "a\tb\n\nw\tx\n\xff\tx\ny\tz\n\nc\td\n") == expected));
  BOOST_TEST((good_rows("width.conll", "a\tb\n\nw\tx\ny\ny\tz\n\nc\td\n") == expected));
  BOOST_TEST((good_rows("utf8.csv", "a,b\n\"w\n\xff\nx\",y\nc,d\n") == expected));
  BOOST_TEST((good_rows("quote.csv", "a,b\n\"w\"x,\"y\ny,z\"\nc,d\n") == expected));
  // A comment is no part of the sentence behind the blank line.
  BOOST_TEST((good_rows("comment.conll", "a\tb\n\n# \xff\n\nc\td\n") == expected));
}

// names were once compared with one another, all pairs of them
BOOST_AUTO_TEST_CASE(a_row_may_have_a_million_columns) {
  std::string header, row;
  for (int k = 0; k < 1'000'000; ++k) header += "c" + std::to_string(k) + "\t", row += "\t";
  BOOST_TEST((read("t.tsv", header + "text\n" + row + "word\n", {text}).rows == Rows{{"word"}}));
  BOOST_TEST(fault("t.tsv", header + "c1\n", "c1") == "t.tsv:1: two columns are called 'c1'");
}

BOOST_AUTO_TEST_SUITE_END()
