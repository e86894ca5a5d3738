// Tables and JSON lines, record by record, and how each fault is refused.
#include "experiments/support/data/records.h"

#include <fstream>

#include <boost/test/unit_test.hpp>

#include "tests/files.h"

using namespace fovea;

namespace {

using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

/// The fields of records in a file of this name and text.
Rows rows_of(const std::string& name, const std::string& text, const Row& fields, Header header = Header::automatic) {
  Folder folder;
  std::ofstream(folder / name, std::ios::binary) << text;
  RecordReader reader(folder / name, record_format(name), {fields, header});
  Rows rows;
  for (Row row; reader.next(row);) rows.push_back(row);
  return rows;
}

/// Reads a file with this content and returns the message of the Error without the beginning "folder/name:".
std::string fault(const std::string& name, const std::string& text, const Row& fields,
                  Header header = Header::automatic) {
  const std::string message = message_of([&] { rows_of(name, text, fields, header); });
  const std::size_t at = message.find("/" + name + ":");
  return at == std::string::npos ? message : message.substr(at + name.size() + 2);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(records)

BOOST_AUTO_TEST_CASE(the_ending_says_the_format) {
  for (const char* name : {"a.tsv", "a.TSV.gz", "a.tab"}) BOOST_TEST((record_format(name) == RecordFormat::tsv));
  for (const char* name : {"a.csv", "x/a.b.csv.gz"}) BOOST_TEST((record_format(name) == RecordFormat::csv));
  for (const char* name : {"a.jsonl", "a.ndjson.gz"}) BOOST_TEST((record_format(name) == RecordFormat::jsonl));
  for (const char* name : {"a", "a.txt", "tsv", "a.gz"}) BOOST_TEST((record_format(name) == RecordFormat::lines));
}

BOOST_AUTO_TEST_CASE(columns_have_numbers_and_names) {
  BOOST_TEST((rows_of("t.tsv", "a\tb\n\nc\td\n", {"2", "1"}) == Rows{{"b", "a"}, {"d", "c"}}));
  BOOST_TEST((rows_of("t.tsv", "x\ty\na\tb\n", {"y"}) == Rows{{"b"}}));
  BOOST_TEST((rows_of("t.tsv", "x\ty\na\tb\n", {"2"}, Header::yes) == Rows{{"b"}}));
  BOOST_TEST((rows_of("t.tsv", "1\t2\na\tb\n", {"2"}) == Rows{{"2"}, {"b"}}));
  BOOST_TEST((rows_of("t.tsv", "\"a\tb\"\n", {"1"}) == Rows{{"\"a"}}));  // quotes are characters
  BOOST_TEST(fault("t.tsv", "x\ty\n", {"z"}) == "1: there is no column 'z'; the columns are x, y");
  BOOST_TEST(fault("t.tsv", "x\ty\n", {"3"}) == "1: there is no column 3; there are 2 columns");
  BOOST_TEST(fault("t.tsv", "x\ty\tx\n", {"y"}) == "1: columns 1 and 3 are both called 'x'");
  BOOST_TEST(fault("t.tsv", "a\tb\n\nc\n", {"1"}) == "3: 1 column, expected 2 as in the first line");
  BOOST_TEST(fault("t.tsv", "a\tb\nc\td\xff\n", {"1"}) ==
             "2: byte 4 is 0xff: not valid UTF-8 (another encoding? try iconv -t UTF-8)");
  BOOST_TEST(fault("t.tsv", "\n", {"1"}) == " the file is empty");
}

BOOST_AUTO_TEST_CASE(commas_quotes_and_line_breaks_stand_in_quoted_columns) {
  BOOST_TEST((rows_of("t.csv", "a,\"b, \"\"c\"\"\"\r\n\"\",\"two\nlines\"\nx y,say \"z\"\n", {"1", "2"}) ==
              Rows{{"a", "b, \"c\""}, {"", "two lines"}, {"x y", "say \"z\""}}));
  BOOST_TEST(fault("t.csv", "a,b\nc,\"two\nlines\"x\n", {"1"}) ==
             "2: column 2: 'x' behind the closing quote; quotes in a field are doubled");
  BOOST_TEST(fault("t.csv", "a,b\n\"c,d\ne,f\n", {"1"}) == "2: column 1: the opening quote has no closing one");
  for (const std::string row : {"c,d\"\n", "c \"d,e\n", "c,d\""})
    BOOST_TEST(contains(fault("t.csv", "a,b\n" + row, {"1"}), ": a quote without a partner"), row);
  BOOST_TEST(fault("t.csv", "a,b\n\"c\nd\",e\nf\n", {"1"}) == "4: 1 column, expected 2 as in the first line");
}

BOOST_AUTO_TEST_CASE(keys_of_json_objects_are_fields) {
  BOOST_TEST((rows_of("t.jsonl",
                      R"({"a": "x\r\ny", "b": {"c": "z"}})"
                      "\n \n"
                      R"({"b.c": "w", "a": ""})",
                      {"b.c", "a"}) == Rows{{"z", "x y"}, {"w", ""}}));
  BOOST_TEST(fault("t.jsonl", "{\"text\": \"x\", \"n\": 1}\n", {"txt"}) ==
             "1: there is no key 'txt'; the keys are text, n; did you mean 'text'?");
  BOOST_TEST(fault("t.jsonl", "{\"text\": 3}\n", {"text"}) == "1: 'text' is a JSON number, expected a string");
  BOOST_TEST(fault("t.jsonl", "{\"text\": null}\n", {"text"}) == "1: 'text' is null, expected a string");
  BOOST_TEST(fault("t.jsonl", "\n{\"a\": \"x\", \"a\": \"y\"}\n", {"a"}) == "2: the key 'a' occurs twice");
  BOOST_TEST(fault("t.json", "3\n", {"a"}) == "1: a JSON number, expected an object like {\"text\": ...}");
  BOOST_TEST(fault("t.jsonl", "[1]\n", {"a"}) ==
             "1: a JSON array, expected an object on each line; jq -c '.[]' FILE writes an array's objects so");
  BOOST_TEST(fault("t.jsonl", "{\"a\": \"x\"}\n{\"a\": \n", {"a"}).starts_with("2: not JSON: byte "));
  BOOST_TEST(fault("t.jsonl", "{\"a\": \"x\\u0000\"}\n", {"a"}) == "1: byte 2 is NUL: not a text file");
  std::string wide = "{\"k\":1";
  for (int k = 0; k < 200'000; ++k) wide += ",\"" + std::to_string(k) + "\":1";
  BOOST_TEST(fault("t.jsonl", wide + "}\n", {"a"}) == "1: more than 10000 keys in a record");
  BOOST_TEST(fault("t.jsonl", "{\"a\": 1e999}\n", {"a"}).starts_with("1: a number is too large"));
  BOOST_TEST(fault("t.jsonl", "{\"b\": {\"c\": [" + std::string(400, '9') + "]}}\n", {"a"})
                 .starts_with("1: a number is too large"));
  BOOST_TEST(fault("t.jsonl", "{\"a\":" + std::string(100'000, '['), {"a"}).starts_with("1: not JSON: byte 100006"));
}

BOOST_AUTO_TEST_CASE(numbers_are_labels_if_they_can_be_told_apart) {
  Folder folder;
  auto label = [&](const std::string& number) {
    std::ofstream(folder / "t.jsonl") << "{\"a\": " << number << "}\n";
    RecordReader reader(folder / "t.jsonl", RecordFormat::jsonl, {.names = {"a"}});
    reader.take_numbers(0);
    Row row;
    reader.next(row);
    return row.at(0);
  };
  BOOST_TEST(label("3") == "3");
  BOOST_TEST(label("2.5") == "2.5");
  BOOST_TEST(label("18446744073709551615") == "18446744073709551615");
  for (const std::string number : {"18446744073709551616", "1e300", "-123456789012345678901234567890"})
    BOOST_TEST(contains(message_of([&] { label(number); }), "t.jsonl:1: 'a' is a number of more than 15 digits"),
               number);
}

// names were once compared with one another, all pairs of them
BOOST_AUTO_TEST_CASE(a_row_may_have_a_million_columns) {
  std::string header, row;
  for (int k = 0; k < 1'000'000; ++k) header += "c" + std::to_string(k) + "\t", row += "\t";
  BOOST_TEST((rows_of("t.tsv", header + "text\n" + row + "word\n", {"text"}) == Rows{{"word"}}));
  BOOST_TEST(fault("t.tsv", header + "c7\n", {"c1"}) == "1: columns 8 and 1000001 are both called 'c7'");
}

BOOST_AUTO_TEST_SUITE_END()
