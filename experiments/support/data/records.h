/// Records with fields: tab- and comma-separated tables, and JSON lines.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/support/program/json_file.h"
#include "experiments/support/text/lines.h"
#include "tensor/error.h"

namespace fovea {

enum class RecordFormat {
  lines,  ///< no records: each line is a text
  tsv,    ///< columns between tabs; quotes have no meaning
  csv,    ///< RFC 4180: columns between commas; quoted ones may have commas, doubled quotes and line breaks in them
  jsonl,  ///< a JSON object a line
  conll   ///< a word and its tags a line, a blank line behind each sentence, which is a record
};

/// By the file's ending, before .gz: .tsv and .tab; .csv; .jsonl, .ndjson and .json; .conll, .conllu, .conllx and what
/// else begins so; everything else is lines.
RecordFormat record_format(const std::filesystem::path& file);

/// Whether the first lines of a file, whatever it is called, are words and tags in columns with blank lines between
/// sentences.
bool looks_like_conll(const std::filesystem::path& file);

/// The error of a single record, "file:line: ...": the records after it can still be read.
struct RecordFault : Error {
  using Error::Error;
};

/// The rows of a table, one at a time. In the CoNLL formats a row is a sentence, and a field has the values of a column
/// for all of its words, with a space between. Left out are comments (lines that begin with '#'), the ranges of CoNLL-U
/// (1-2: the words follow), its empty nodes (1.1), and -DOCSTART-.
class TableReader {
 public:
  TableReader(const std::filesystem::path& file, RecordFormat format);

  /// Reads the next row; false at the end. A blank line is a row of one blank field. Throws RecordFault for invalid
  /// UTF-8, NUL bytes and quotes that are not closed.
  bool next(std::vector<std::string>& fields);

  /// The number of the line in which the last row begins.
  std::int64_t number() const { return number_; }
  const std::string& name() const { return reader_.name(); }

  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    throw RecordFault(fmt::format("{}:{}: {}", name(), number_, fmt::format(format, std::forward<Args>(args)...)));
  }

 private:
  bool next_line();
  void read_csv(std::vector<std::string>& fields);
  bool read_conll(std::vector<std::string>& fields);

  LineReader reader_;
  RecordFormat format_;
  std::string line_;
  std::int64_t number_ = 0;
  // of CoNLL:
  std::size_t width_ = 0;     ///< the columns of the first word
  bool has_tabs_ = false;     ///< columns lie between tabs, not between spaces
  bool has_numbers_ = false;  ///< the first column numbers the words of a sentence
};

/// Parses the last line of `at`, a JSON object. Throws RecordFault for invalid JSON, for other values, and for a key
/// that occurs twice.
Json parse_record(const TableReader& at, const std::string& line);

/// The text of a key, on one line. `translation.en` is the key `en` of the object `translation`. Throws RecordFault
/// where the key is missing, with the keys that the object has, or its value is not a string.
std::string text_field(const TableReader& at, const Json& record, const std::string& key, bool takes_numbers = false);

/// The first fields of a row, cut short, for messages: "id, review, rating".
std::string shown(const std::vector<std::string>& fields);

/// "columns 1 and 3 are both called 'x'"; empty where all names are different.
std::string repeated_name(const std::vector<std::string>& names);

enum class Header { automatic, yes, no };

/// The fields that are read of each record: columns by name or by number, from 1; keys of JSON objects, where
/// `translation.en` is the key `en` of the object `translation`.
struct RecordFields {
  std::vector<std::string> names;
  Header header =
      Header::automatic;  ///< tables: whether the first line has the names; automatic: where fields are names
};

/// "1,2" or "source,target" as fields.
std::vector<std::string> split_fields(std::string_view text);

/// The chosen fields of a file's records, one record at a time. Blank lines are no records.
class RecordReader {
 public:
  /// Throws Error where a table does not have the columns.
  RecordReader(const std::filesystem::path& file, RecordFormat format, RecordFields fields);

  /// Reads the values of the next record, in the order of the fields; false at the end. Line breaks in values become
  /// spaces. Throws RecordFault for a wrong number of columns, invalid JSON, a missing key, and values that are not
  /// strings.
  bool next(std::vector<std::string>& values);

  /// Accepts JSON numbers, true and false as values of the field, for labels.
  void take_numbers(std::size_t field) { takes_numbers_.at(field) = true; }

  std::int64_t number() const { return table_.number(); }
  const std::string& name() const { return table_.name(); }

 private:
  void find_columns();
  TableReader table_;
  RecordFormat format_;
  RecordFields fields_;
  std::vector<std::size_t> columns_;  ///< of tables: the positions of the fields
  std::size_t width_ = 0;             ///< of tables: the columns that each row has
  std::vector<std::string> first_;    ///< of tables: the first row, unless it is a header
  std::vector<bool> takes_numbers_;
};

/// The names of the first record's fields: a table's first row, a JSON object's keys. Empty where there is no record.
std::vector<std::string> first_fields(const std::filesystem::path& file, RecordFormat format);

}  // namespace fovea
