#include "experiments/support/data/records.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "experiments/support/program/json_file.h"
#include "experiments/support/text/words.h"
#include "tensor/support/suggestion.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

constexpr const char* columns_of_conllu[] = {"id",    "form", "lemma",  "upos", "xpos",
                                             "feats", "head", "deprel", "deps", "misc"};

/// Texts stand on one line wherever they are written: line breaks, "\r\n" as one, become spaces.
std::string on_one_line(std::string text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    result += text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
  }
  return result;
}

// Keys in alphabetical order are found quickly, however many a hostile record has.
using Record = nlohmann::json;

std::vector<std::string> keys_of(const Record& record) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : record.items()) keys.push_back(key);
  return keys;
}

/// The value of `translation.en`, or of a key that has the point in it.
const Record* find_value(const Record& record, const std::string& path) {
  if (!record.is_object()) return nullptr;
  if (const auto found = record.find(path); found != record.end()) return &*found;
  const std::size_t point = path.find('.');
  if (point == std::string::npos) return nullptr;
  const auto inner = record.find(path.substr(0, point));
  return inner == record.end() ? nullptr : find_value(*inner, path.substr(point + 1));
}

}  // namespace

bool Role::has(const std::string& name) const { return std::ranges::find(names, lower_case(name)) != names.end(); }

RecordFormat record_format(const fs::path& file) {
  const std::string ending = lower_case((file.extension() == ".gz" ? file.stem() : file).extension().string());
  if (ending == ".tsv" || ending == ".tab") return RecordFormat::tsv;
  if (ending == ".csv") return RecordFormat::csv;
  if (ending.starts_with(".conll")) return RecordFormat::conll;
  const bool is_json = ending == ".jsonl" || ending == ".ndjson" || ending == ".json";
  return is_json ? RecordFormat::jsonl : RecordFormat::lines;
}

namespace {

/// 1-2 is the range of words that are written as one, 1.1 a word that is not written.
bool is_number_of_no_word(std::string_view text) {
  const std::size_t sign = text.find_first_of("-.");
  return sign != std::string_view::npos && is_whole_number(text.substr(0, sign)) &&
         is_whole_number(text.substr(sign + 1));
}

}  // namespace

bool RecordReader::next_line() {
  if (!reader_.next_of_any_kind(line_)) return false;
  if (const std::string fault = text_fault(line_); !fault.empty())
    note(RecordFault(fmt::format("{}:{}: {}", name(), reader_.number(), fault), "not UTF-8 text"));
  return true;
}

void RecordReader::note(const RecordFault& fault) {
  if (!fault_) fault_ = fault;
}

/// The columns of a line of CoNLL's; between tabs they may have spaces.
std::vector<std::string_view> RecordReader::conll_columns(const std::string& line) const {
  return has_tabs_ ? split_columns(line) : split_words(line);
}

/// Whether a line with a number sign before the first word of a sentence is a comment. A word may be '#', too: a line
/// with as many columns as words have is one.
bool RecordReader::is_comment(const std::string& line) {
  if (conll_columns(line).size() != width_) return true;
  if (!std::exchange(has_warned_of_sign_, true))
    warn(fmt::format("{}: the line '{}' is read as a word, not as a comment, because it has {}", name(),
                     printable(shortened(line, 40)), counted(width_, "column")));
  return false;
}

/// Learns the number of columns from the first word of a file.
void RecordReader::begin_conll() {
  has_tabs_ = line_.find('\t') != std::string::npos;
  const auto columns = conll_columns(line_);
  width_ = columns.size();
  const auto words = split_words(columns[0]);
  if (width_ == 2 && words.size() > 1 && words.size() == split_words(columns[1]).size())
    throw RecordFault(fmt::format(
        "{}:{}: '{}' and '{}' are a sentence and its tags, expected one word and its tag, as in CoNLL files; "
        "sentences with their tags are read from .csv and .jsonl files, from .tsv files with --source 1 --target "
        "2, and from pairs of files: --source words --target tags reads train.words and train.tags",
        name(), reader_.number(), printable(shortened(columns[0], 40)), printable(shortened(columns[1], 40))));
}

bool RecordReader::read_conll(std::vector<std::string>& fields) {
  std::vector<std::string> first_signs;  // lines with a number sign above the first word of the file
  const auto add_word = [&](const std::string& line) {
    const auto columns = conll_columns(line);
    if (width_ == std::size(columns_of_conllu) && is_number_of_no_word(columns[0])) return;
    if (number_ == 0) number_ = reader_.number();
    fields.resize(width_);
    if (columns.size() != width_)
      note(RecordFault(fmt::format("{}:{}: {}, the words before have {}", name(), reader_.number(),
                                   counted(columns.size(), "column"), width_)));
    for (std::size_t c = 0; c < std::min(width_, columns.size()); ++c) {
      const std::string value = fmt::format("{}", fmt::join(split_words(columns[c]), "_"));  // one word, with spaces
      append_word(fields[c], value.empty() ? "_" : value);
    }
  };
  for (number_ = 0; next_line();) {
    if (is_blank(line_)) {
      if (number_ > 0 || fault_) break;  // a faulty comment by itself costs no sentence
      first_signs.clear();
      continue;
    }
    if (line_[0] == '#' && number_ == 0) {
      if (width_ == 0) first_signs.push_back(line_);
      if (width_ == 0 || is_comment(line_)) continue;
    }
    if (split_words(line_)[0] == "-DOCSTART-") continue;
    if (width_ == 0) {
      begin_conll();
      for (const std::string& line : first_signs)
        if (!is_comment(line)) add_word(line);
    }
    add_word(line_);
  }
  return number_ > 0;
}

/// Reads a row of fields that may stand between quotes.
void RecordReader::read_quoted(std::vector<std::string>& fields) {
  constexpr std::size_t longest_field = std::size_t{64} << 20;
  const char separator = format_ == RecordFormat::csv ? ',' : '\t';
  for (std::size_t at = 0;;) {
    std::string& field = fields.emplace_back();
    const bool is_quoted = line_[at] == '"';
    for (bool is_doubled = false; is_quoted && line_[at] == '"'; is_doubled = true) {
      if (is_doubled) field += '"';
      for (++at; line_.find('"', at) == std::string::npos; at = 0) {
        field += line_.substr(at) + "\n";
        if (field.size() > longest_field || !next_line())  // no record like the others: all lines behind it are lost
          fail("{}:{}: column {}: the opening quote has no closing one", name(), number_, fields.size());
      }
      const std::size_t end = line_.find('"', at);
      field.append(line_, at, end - at);
      at = end + 1;
    }
    const std::size_t end = std::min(line_.find(separator, at), line_.size());
    if (is_quoted && end > at)
      note(fault_here("column {}: '{}' behind the closing quote; quotes in a field are doubled", fields.size(),
                      line_[at]));
    field.append(line_, at, end - at);
    const std::string inner = trimmed(field);
    if (!is_quoted && inner != field && inner.starts_with('"') && inner.find('"', 1) + 1 == inner.size())
      spaced_.push_back(fields.size());
    if (end == line_.size()) return;
    at = end + 1;
  }
}

namespace {

bool is_blank_row(const std::vector<std::string>& row) { return row.size() == 1 && is_blank(row[0]); }

Record parse_record(const RecordReader& at, const std::string& line) {
  at.require_here(line.find_first_not_of(" \t") != line.find('['),
                  "a JSON array, expected an object on each line; jq -c '.[]' FILE writes an array's objects so");
  Record record;
  try {
    record = parse_unique_keys<Record>(line,
                                       [&](const std::string& key) { at.fail_here("the key '{}' occurs twice", key); });
  } catch (const Record::exception& error) {
    const std::string what = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 3: ..."
    const std::size_t column = what.find("column "), reason = what.find("] ") + 2;
    at.fail_here("not JSON: {}", what.substr(column == std::string::npos ? reason : column));
  }
  at.require_here(record.is_object(), "a JSON {}, expected an object like {{\"text\": ...}}", record.type_name());
  return record;
}

}  // namespace

/// Reads the next row of any kind; a JSON object and a blank line are rows of one field. A faulty row is read to its
/// end before its fault is thrown: otherwise the lines of the row behind the fault would be read as rows.
bool RecordReader::next_row(std::vector<std::string>& fields) {
  fault_.reset();
  spaced_.clear();
  fields.clear();
  bool is_there = true;
  if (format_ == RecordFormat::conll) {
    is_there = read_conll(fields);
  } else {
    number_ = reader_.number() + 1;
    if (!next_line()) return --number_, false;
    if (format_ == RecordFormat::csv || reads_quotes_)
      read_quoted(fields);
    else if (format_ == RecordFormat::tsv)
      for (const std::string_view column : split_columns(line_)) fields.emplace_back(column);
    else
      fields.push_back(line_);
  }
  if (fault_) throw RecordFault(*fault_);
  return is_there;
}

namespace {

/// The first fields of a row, cut short, for messages: "id, review, rating".
std::string shown(const std::vector<std::string>& fields) {
  constexpr std::size_t widest = 24;
  std::vector<std::string> short_fields;
  for (const std::string& field : fields) short_fields.push_back(shortened(field, widest));
  return first_few(short_fields);
}

}  // namespace

std::size_t RecordReader::required() const {
  return std::size_t(std::ranges::count(roles_, false, &Role::is_optional));
}

RecordReader::RecordReader(const fs::path& file, RecordFormat format, std::vector<Role> roles, RecordFields fields,
                           bool has_more)
    : reader_(file), format_(format), roles_(std::move(roles)), fields_(std::move(fields)) {
  std::vector<std::string>& chosen = fields_.names;
  if (format_ == RecordFormat::lines) {
    chosen.clear();
    return;
  }
  const std::size_t given = chosen.size();
  require(given == 0 || given == required() || (has_more && given > required()), "--columns {}: {}, expected {} ({}){}",
          fmt::join(chosen, ","), counted(given, "field"), required(), what(),
          has_more ? ", or more (further references)" : "");
  for (const std::string& field : chosen)
    require(std::ranges::count(chosen, field) == 1, "--columns {}: '{}' is given twice; {} are different fields",
            fmt::join(chosen, ","), field, what());
  if (format_ != RecordFormat::jsonl || given == 0)
    find_fields();
  else  // the first record may be a bad one
    chosen.resize(given + roles_.size() - required());
}

/// "TEXT,LABEL"
std::string RecordReader::what() const {
  std::vector<std::string> whats;
  for (std::size_t k = 0; k < required(); ++k) whats.push_back(roles_[k].what);
  return fmt::format("{}", fmt::join(whats, ","));
}

/// The names of the columns that are called as the roles demand; of two columns, one such name suffices. Empty where
/// the names do not say.
std::vector<std::string> RecordReader::names_of_roles(const std::vector<std::string>& names) const {
  std::vector<std::string> found;
  for (std::size_t k = 0; k < required(); ++k) {
    std::vector<std::string> fitting;
    std::ranges::copy_if(names, std::back_inserter(fitting), [&](const auto& name) { return roles_[k].has(name); });
    if (std::ranges::count(fitting, fitting.empty() ? "" : fitting[0]) < std::ssize(fitting))
      return {};  // of several names
    found.push_back(fitting.empty() ? "" : fitting[0]);
  }
  if (std::ranges::count(found, "") == 1 && names.size() == 2 && found.size() == 2)
    std::ranges::replace(found, std::string(), names[std::ranges::count(found, names[0])]);
  return std::ranges::count(found, "") == 0 ? found : std::vector<std::string>();
}

void RecordReader::find_fields() {
  std::vector<std::string> row;
  do {
    require(next_row(row), "{}: the file is empty", name());
  } while (is_blank_row(row));
  width_ = row.size();
  const bool is_json = format_ == RecordFormat::jsonl, is_conll = format_ == RecordFormat::conll;
  const bool is_conllu = is_conll && width_ == std::size(columns_of_conllu);
  const std::vector<std::string> names =
      is_json     ? keys_of(parse_record(*this, row[0]))
      : is_conllu ? std::vector<std::string>(std::begin(columns_of_conllu), std::end(columns_of_conllu))
                  : row;
  const bool may_be_header = !is_json && !is_conll && fields_.header != Header::no;
  std::vector<std::string>& chosen = fields_.names;
  if (chosen.empty() && (is_json || is_conllu || may_be_header)) chosen = names_of_roles(names);
  if (chosen.empty() && !fields_.has_flag) return;  // the reader says which names it needs
  if (chosen.empty()) {
    require_here(!is_json && width_ == required(), "{} ({}), expected {} ({}){}; --columns {} chooses them{}",
                 counted(names.size(), is_json ? "key" : "column"), shown(names), required(), what(),
                 is_json ? " with names that are known" : "", what(), is_json ? "" : " by number from 1 or by name");
    for (std::size_t k = 1; k <= width_; ++k) chosen.push_back(std::to_string(k));
  }
  has_header_ = may_be_header && (fields_.header == Header::yes || !std::ranges::all_of(chosen, is_whole_number));
  const bool has_names = has_header_ || is_json || is_conllu;
  for (const std::string& field : chosen) {
    require_here(!has_names || std::ranges::count(names, field) <= 1, "two columns are called '{}'", field);
    const auto named = has_names ? std::ranges::find(names, field) : names.end();
    columns_.push_back(named != names.end() ? std::size_t(named - names.begin() + 1)
                                            : fovea::number<std::size_t>(field).value_or(0));
    require_here(is_json || (columns_.back() > 0 && columns_.back() <= width_), "there is no column {}; {}{}",
                 is_whole_number(field) ? field : "'" + field + "'",
                 has_names ? "the columns are " + shown(names) : "there are " + counted(width_, "column"),
                 has_names ? did_you_mean(field, names) : "");
  }
  for (std::size_t k = required(); k < roles_.size(); ++k) {  // optional ones
    const auto named = std::ranges::find_if(names, [&](const std::string& name) { return roles_[k].has(name); });
    const bool is_there = has_names && named != names.end();
    columns_.push_back(is_there ? std::size_t(named - names.begin() + 1) : 0);
    chosen.push_back(is_there ? *named : "");
  }
  if (!has_header_) first_ = std::move(row);
}

namespace {

/// A number or truth value as text. Equal numbers have one text: 1, 1.0 and 1e0 are "1", 0 and -0.0 are "0".
std::string text_of_number(const Record& value) {
  constexpr double first_inexact = 1e15;
  if (!value.is_number_float()) return value.dump();
  const auto number = value.get<double>();
  const bool is_whole = number == std::floor(number) && std::abs(number) < first_inexact;
  return is_whole ? std::to_string(static_cast<std::int64_t>(number)) : value.dump();
}

}  // namespace

std::string RecordReader::field_of(const Record& record, std::size_t k) const {
  const std::string& key = fields_.names[k];
  static const Role further_reference;
  const Role& role = k < roles_.size() ? roles_[k] : further_reference;
  const Record* value = find_value(record, key);
  if (value == nullptr && role.is_optional) return "";
  if (value == nullptr) {
    const auto keys = keys_of(record);
    fail_here("there is no key '{}'; the keys are {}{}", key, first_few(keys), did_you_mean(key, keys));
  }
  if (value->is_string()) return value->get<std::string>();
  if (role.takes_numbers && (value->is_number() || value->is_boolean())) {
    const std::string text = text_of_number(*value);
    require_here(std::ranges::count_if(text, [](unsigned char sign) { return std::isdigit(sign); }) <= 15,
                 "'{}' is a number of more than 15 digits; write it as a string in quotes", key);
    return text;
  }
  fail_here("'{}' is {}, expected a string", key,
            value->is_null() ? "null" : fmt::format("a JSON {}", value->type_name()));
}

bool RecordReader::next(std::vector<std::string>& values) {
  if (format_ == RecordFormat::lines) return next_row(values);
  std::vector<std::string> row = std::move(first_);
  for (first_.clear(); row.empty() || (is_blank_row(row) && !keeps_blank_lines_);)
    if (!next_row(row)) return false;
  values.clear();
  if (is_blank_row(row)) {
    values = std::move(row);
    return true;
  }
  if (format_ == RecordFormat::jsonl) {
    const Record record = parse_record(*this, row[0]);
    for (std::size_t k = 0; k < fields_.names.size(); ++k) values.push_back(field_of(record, k));
  } else {
    require_here(row.size() == width_, "{}, expected {} as in the first line", counted(row.size(), "column"), width_);
    for (const std::size_t column : columns_) {
      require_here(std::ranges::count(spaced_, column) == 0,
                   "column {}: spaces outside of the quotes; write them inside, or leave them out", column);
      values.push_back(column == 0 ? "" : row[column - 1]);
    }
  }
  for (std::string& value : values) {
    value = on_one_line(std::move(value));
    require_here(format_ != RecordFormat::jsonl || value.find('\0') == std::string::npos,
                 "a text has the character \\u0000, which no text may have");
    if (const std::string fault = text_fault(value); !fault.empty()) fail_here("{}", fault);
  }
  return true;
}

std::string RecordReader::description() const {
  std::vector<std::string> names = fields_.names;
  std::erase(names, "");
  if (names.empty()) return "";
  return fmt::format("{}{} {}", format_ == RecordFormat::jsonl ? "key" : "column", names.size() > 1 ? "s" : "",
                     printable(listed(names, ", ")));
}

}  // namespace fovea
