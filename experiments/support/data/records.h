/// Records with fields, one at a time: columns of tables, keys of JSON lines, words and tags of CoNLL files, whole
/// lines.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/support/program/json_file.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/text/lines.h"
#include "tensor/error.h"

namespace fovea {

enum class RecordFormat {
  lines,  ///< each line is a record of one field
  tsv,    ///< columns between tabs; quotes have no meaning
  csv,    ///< RFC 4180: columns between commas; quoted ones may have commas, doubled quotes and line breaks in them
  jsonl,  ///< a JSON object a line
  conll   ///< a word and its tags a line, a blank line behind each sentence, which is a record
};

/// The format that a file's ending names, without .gz: .tsv and .tab; .csv; .jsonl, .ndjson and .json; .conll, .conllu,
/// .conllx and other endings that begin with .conll. Files with other endings are lines.
RecordFormat record_format(const std::filesystem::path& file);

/// The error of a single record, "file:line: ...": the records after it can still be read. A record of several lines is
/// passed over as a whole, wherever its fault is.
struct RecordFault : Error {
  explicit RecordFault(const std::string& message, const char* kind = "no proper record")
      : Error(message), reason(kind) {}
  const char* reason;
};

/// A value that is read of each record.
struct Role {
  std::string what;                ///< for messages: "TEXT"
  std::vector<std::string> names;  ///< lower-case names of columns or keys that have it
  bool takes_numbers = false;      ///< JSON numbers, true and false are values too
  bool is_optional = false;        ///< empty where no column has such a name; optional roles come last
  bool has(const std::string& name) const;
};

enum class Header { automatic, yes, no };
/// The names of its values in flags.
inline const std::vector<std::pair<std::string, Header>> header_names{
    {"auto", Header::automatic}, {"yes", Header::yes}, {"no", Header::no}};

/// The user's choice of fields.
struct RecordFields {
  /// --columns: by name, by number from 1, or keys; `t.en` is the key `en` inside `t`.
  std::vector<std::string> names = {};
  Header header = Header::automatic;  ///< --header: whether the first line of a table has names
  bool has_flag = true;               ///< whether the program has --columns
};

/// Reads the values of some roles of each record.
///
/// The fields are those that the user chose: by number, or by name if the first line has names. (Where all choices are
/// numbers, it is a record like the others, unless --header says that it has names.) Without a choice the first line
/// has names if one column is called as each role demands; of two columns, one such name suffices. Otherwise there must
/// be as many columns as roles, which are read in their order. JSON objects have names always, and CoNLL-U has its ten.
///
/// In CoNLL files a field has the values of a column for all words of a sentence, with a space between. Left out are
/// comments (lines that begin with '#'), -DOCSTART-, and of CoNLL-U, which has ten columns, ranges (1-2: the words
/// follow) and empty nodes (1.1). In files of lines a blank line is a record; in tables and JSON lines it is left out,
/// unless blank lines are kept.
class RecordReader {
 public:
  /// Throws Error where a table does not have the columns. With `has_more` the user may choose more fields than there
  /// are roles; the further ones have the last role.
  RecordReader(const std::filesystem::path& file, RecordFormat format, std::vector<Role> roles,
               RecordFields fields = {}, bool has_more = false);

  /// Reads the values of the next record, in the order of the fields; false at the end. Line breaks in values become
  /// spaces. Throws RecordFault for invalid UTF-8, NUL bytes, quotes that are not closed, a wrong number of columns,
  /// invalid JSON, a missing key, and values that are not strings.
  bool next(std::vector<std::string>& values);

  /// Returns blank lines as records, too.
  void keep_blank_lines() { keeps_blank_lines_ = true; }
  /// From now on fields between tabs may stand between quotes, as those between commas may.
  void read_quotes() { reads_quotes_ = true; }

  /// The names of the fields that are read, or their numbers; empty for whole lines and optional ones without a column.
  const std::vector<std::string>& fields() const { return fields_.names; }
  bool has_header() const { return has_header_; }
  /// "columns 1, 2", "keys text, summary", to be printed; empty for whole lines.
  std::string description() const;

  /// The number of the line in which the last record begins.
  std::int64_t number() const { return number_; }
  const std::string& name() const { return reader_.name(); }

  /// Throws RecordFault about the last record. The names of columns and keys come from the file, and may have control
  /// characters, of which the message has pictures.
  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    throw fault_here(format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void require_here(bool claim, fmt::format_string<Args...> format, Args&&... args) const {
    if (!claim) [[unlikely]]
      fail_here(format, std::forward<Args>(args)...);
  }

 private:
  template <class... Args>
  RecordFault fault_here(fmt::format_string<Args...> format, Args&&... args) const {
    const std::string fault = fmt::format(format, std::forward<Args>(args)...);
    return RecordFault(fmt::format("{}:{}: {}", name(), number_, printable(fault)));
  }
  /// Keeps the first fault of a record, which is thrown at the end of the record.
  void note(const RecordFault& fault);
  bool next_line();
  bool next_row(std::vector<std::string>& fields);
  void read_quoted(std::vector<std::string>& fields);
  std::vector<std::string_view> conll_columns(const std::string& line) const;
  bool is_comment(const std::string& line);
  void begin_conll();
  bool read_conll(std::vector<std::string>& fields);
  void find_fields();
  std::string what() const;
  std::vector<std::string> names_of_roles(const std::vector<std::string>& names) const;
  std::string field_of(const nlohmann::json& record, std::size_t k) const;
  std::size_t required() const;  ///< roles that are not optional

  LineReader reader_;
  RecordFormat format_;
  std::vector<Role> roles_;
  RecordFields fields_;
  bool has_header_ = false, keeps_blank_lines_ = false, reads_quotes_ = false;
  std::vector<std::size_t> columns_;  ///< of tables: the positions of the fields, from 1; 0: there is none
  std::vector<std::string> first_;    ///< of tables: the first row, unless it is a header
  std::string line_;
  std::optional<RecordFault> fault_;  ///< of the record that is being read
  std::vector<std::size_t> spaced_;   ///< the columns of the row whose quotes have spaces around them, from 1
  std::int64_t number_ = 0;
  std::size_t width_ = 0;  ///< of tables: the columns that each row has
  bool has_tabs_ = false;  ///< of CoNLL: columns lie between tabs, not between spaces
  bool has_warned_of_sign_ = false;
};

}  // namespace fovea
