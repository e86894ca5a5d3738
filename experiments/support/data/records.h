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
  tsv,    ///< columns between tabs; quotes are characters as any other
  csv,    ///< RFC 4180: columns between commas; quoted ones may have commas, doubled quotes and line breaks in them
  jsonl   ///< a JSON object a line
};

/// By the file's ending, before .gz: .tsv and .tab, .csv, .jsonl and .ndjson; everything else is lines.
RecordFormat record_format(const std::filesystem::path& file);

/// A record that is wrong in itself, so that a reader may skip it: "file:line: ...".
struct RecordFault : Error {
  using Error::Error;
};

/// The rows of a table, one at a time.
class TableReader {
 public:
  TableReader(const std::filesystem::path& file, RecordFormat format);

  /// False at the end. A blank line is a row of one blank field. Throws RecordFault for invalid UTF-8 and NUL bytes,
  /// and for what RFC 4180 does not allow.
  bool next(std::vector<std::string>& fields);

  /// The line in which the row begins that `next` gave last.
  std::int64_t number() const { return number_; }
  const std::string& name() const { return reader_.name(); }

  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    throw RecordFault(fmt::format("{}:{}: {}", name(), number_, fmt::format(format, std::forward<Args>(args)...)));
  }

 private:
  bool next_line();
  void read_csv(std::vector<std::string>& fields);

  LineReader reader_;
  RecordFormat format_;
  std::string line_;
  std::int64_t number_ = 0;
};

/// The JSON object of the line that `at` gave last. Throws RecordFault for anything else, and for a key that occurs
/// twice.
Json parse_record(const TableReader& at, const std::string& line);

/// The text of a key, on one line. `translation.en` is the key `en` of the object `translation`. Throws RecordFault
/// where the key is missing, with those that there are, or has no text.
std::string text_field(const TableReader& at, const Json& record, const std::string& key, bool takes_numbers = false);

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
  /// Throws Error where a table has not the columns.
  RecordReader(const std::filesystem::path& file, RecordFormat format, RecordFields fields);

  /// The values of the fields, in their order; line breaks in them are spaces. False at the end. Throws RecordFault for
  /// a record that has not the fields: other numbers of columns, no JSON, a missing key, a value that is no text. In
  /// JSON a value that is a number, true or false is a text only where `takes_numbers`.
  bool next(std::vector<std::string>& values);

  /// Lets JSON numbers, true and false count as texts: for labels.
  void take_numbers(std::size_t field) { takes_numbers_.at(field) = true; }

  std::int64_t number() const { return table_.number(); }
  const std::string& name() const { return table_.name(); }

 private:
  void find_columns();
  TableReader table_;
  RecordFormat format_;
  RecordFields fields_;
  std::vector<std::size_t> columns_;  ///< of tables: where the fields are
  std::size_t width_ = 0;             ///< of tables: the columns that each row has
  std::vector<std::string> first_;    ///< of tables: a first row that is no header
  std::vector<bool> takes_numbers_;
};

/// The names of the first record's fields: a table's first row, a JSON object's keys. Empty where there is no record.
std::vector<std::string> first_fields(const std::filesystem::path& file, RecordFormat format);

}  // namespace fovea
