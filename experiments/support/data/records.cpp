#include "experiments/support/data/records.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/support/suggestion.h"

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

std::vector<std::string> keys_of(const Json& record) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : record.items()) keys.push_back(key);
  return keys;
}

/// The value of `translation.en`, or of a key that has the point in it.
const Json* find_value(const Json& record, const std::string& path) {
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

/// The columns of a word in a CoNLL file. Between tabs they may have spaces.
std::vector<std::string_view> conll_columns(std::string_view line) {
  return line.find('\t') == std::string_view::npos ? split_words(line) : split_columns(line);
}

/// 1-2 is the range of words that are written as one, 1.1 a word that is not written.
bool is_number_of_no_word(std::string_view text) {
  const std::size_t sign = text.find_first_of("-.");
  return sign != std::string_view::npos && is_whole_number(text.substr(0, sign)) &&
         is_whole_number(text.substr(sign + 1));
}

}  // namespace

bool looks_like_conll(const fs::path& file) {
  constexpr std::int64_t looked_at = 200;
  std::size_t width = 0;
  bool has_blank = false, has_end = false;
  try {
    LineReader reader(file);
    for (std::string line; reader.number() < looked_at && reader.next(line);) {
      has_blank = has_blank || (width > 0 && is_blank(line));
      if (is_blank(line) || line.starts_with('#')) continue;
      const auto columns = conll_columns(line);
      const bool are_words = std::ranges::all_of(columns, [](auto column) { return split_words(column).size() == 1; });
      if (columns.size() < 2 || !are_words || (width > 0 && columns.size() != width)) return false;
      width = columns.size();
      has_end = has_end || has_blank;
    }
  } catch (const Error&) {
    return false;
  }
  return has_end;
}

bool RecordReader::next_line() {
  if (!reader_.next_of_any_kind(line_)) return false;
  if (const std::string fault = text_fault(line_); !fault.empty())
    throw RecordFault(fmt::format("{}:{}: {}", name(), reader_.number(), fault), "not UTF-8 text");
  return true;
}

bool RecordReader::read_conll(std::vector<std::string>& fields) {
  std::string fault;
  fields.clear();
  for (number_ = 0; next_line();) {
    if (is_blank(line_)) {
      if (number_ > 0) break;
      continue;
    }
    const bool has_tab = line_.find('\t') != std::string::npos;
    const auto columns = conll_columns(line_);
    // a word may be '#', too
    if (line_[0] == '#' && number_ == 0 && (has_tabs_ ? !has_tab : columns.size() != width_)) continue;
    if (columns[0] == "-DOCSTART-") continue;
    if (width_ == 0) {
      constexpr std::size_t fewest_with_numbers = 8;
      width_ = columns.size();
      has_tabs_ = has_tab;
      has_numbers_ = width_ >= fewest_with_numbers && (columns[0] == "1" || is_number_of_no_word(columns[0]));
    }
    if (has_numbers_ && is_number_of_no_word(columns[0])) continue;
    if (number_ == 0) number_ = reader_.number();
    fields.resize(width_);
    if (columns.size() != width_ && fault.empty())
      fault = fmt::format("{}:{}: {}, the words before have {}", name(), reader_.number(),
                          counted(columns.size(), "column"), width_);
    for (std::size_t c = 0; c < std::min(width_, columns.size()); ++c) {
      std::string value;  // a word with spaces stays one
      for (const std::string_view part : split_words(columns[c]))
        value += (value.empty() ? "" : "_") + std::string(part);
      fields[c] += (fields[c].empty() ? "" : " ") + (value.empty() ? "_" : value);
    }
  }
  if (!fault.empty()) throw RecordFault(fault);
  return number_ > 0;
}

void RecordReader::read_csv(std::vector<std::string>& fields) {
  constexpr std::size_t longest_field = std::size_t{64} << 20;
  fields.emplace_back();
  bool quoted = false, closed = false;
  std::size_t loose = 0;  // quotes inside a field that is not quoted: allowed in pairs
  const auto end_field = [&] {
    if (loose % 2 != 0)
      fail_here("column {}: a quote without a partner; a field with quotes stands in quotes, with its own doubled",
                fields.size());
    loose = 0;
  };
  for (;;) {
    for (std::size_t i = 0; i < line_.size(); ++i) {
      const char c = line_[i];
      if (quoted && c == '"') {
        const bool doubled = i + 1 < line_.size() && line_[i + 1] == '"';
        if (doubled) fields.back() += line_[++i];
        quoted = doubled;
        closed = !doubled;
      } else if (!quoted && c == ',') {
        end_field();
        fields.emplace_back();
        closed = false;
      } else if (!quoted && c == '"' && fields.back().empty() && !closed) {
        quoted = true;
      } else {
        if (closed)
          fail_here("column {}: '{}' behind the closing quote; quotes in a field are doubled", fields.size(), c);
        loose += !quoted && c == '"';
        fields.back() += c;
      }
    }
    if (!quoted) return end_field();
    if (fields.back().size() > longest_field || !next_line())
      fail_here("column {}: the opening quote has no closing one", fields.size());
    fields.back() += '\n';
  }
}

namespace {

/// The columns of a line as Python's csv module writes them: a field with tabs or quotes stands in quotes, with its own
/// doubled. A field that starts with a quote that is not closed before a tab is taken as it stands.
std::vector<std::string> quoted_columns(std::string_view line) {
  std::vector<std::string> columns;
  const std::vector<std::string_view> parts = split_columns(line);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::string field(parts[i]);
    std::size_t last = i;
    if (field.starts_with('"'))
      while (std::ranges::count(field, '"') % 2 != 0 && ++last < parts.size()) field += '\t' + std::string(parts[last]);
    const bool is_quoted = field.starts_with('"') && field.size() > 1 && field.ends_with('"') && last < parts.size();
    columns.push_back(is_quoted ? field.substr(1, field.size() - 2) : std::string(parts[i]));
    if (!is_quoted) continue;
    for (std::size_t at = 0; (at = columns.back().find("\"\"", at)) != std::string::npos; ++at)
      columns.back().erase(at, 1);
    i = last;
  }
  return columns;
}

bool is_blank_row(const std::vector<std::string>& row) { return row.size() == 1 && is_blank(row[0]); }

Json parse_record(const RecordReader& at, const std::string& line) {
  constexpr std::size_t most_keys = 10'000;  // in whatever depth; the time of a look-up grows with their number
  std::size_t count = 0;
  std::set<std::string> keys;
  const auto watch_keys = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event != Json::parse_event_t::key) return true;
    if (++count > most_keys) at.fail_here("more than {} keys in a record", most_keys);
    if (depth == 1 && !keys.insert(value.get<std::string>()).second)
      at.fail_here("the key '{}' occurs twice", value.get<std::string>());
    return true;
  };
  if (line.find_first_not_of(" \t") == line.find('['))
    at.fail_here("a JSON array, expected an object on each line; jq -c '.[]' FILE writes an array's objects so");
  try {
    Json record = Json::parse(line, watch_keys);
    if (!record.is_object()) at.fail_here("a JSON {}, expected an object like {{\"text\": ...}}", record.type_name());
    return record;
  } catch (const Json::parse_error& error) {
    const std::string what = error.what();
    const std::size_t reason = what.find(": ", what.find("parse error"));
    at.fail_here("not JSON: byte {}{}", error.byte, reason == std::string::npos ? "" : what.substr(reason));
  } catch (const Json::out_of_range&) {
    at.fail_here("a number is too large; numbers that only name something can be written as strings");
  }
}

}  // namespace

/// Reads the next row of any kind; a JSON object and a blank line are rows of one field.
bool RecordReader::next_row(std::vector<std::string>& fields) {
  if (format_ == RecordFormat::conll) return read_conll(fields);
  number_ = reader_.number() + 1;
  if (!next_line()) return --number_, false;
  fields.clear();
  if (format_ == RecordFormat::csv) {
    read_csv(fields);
  } else if (format_ == RecordFormat::tsv && reads_quotes_) {
    fields = quoted_columns(line_);
  } else if (format_ == RecordFormat::tsv) {
    for (const std::string_view column : split_columns(line_)) fields.emplace_back(column);
  } else {
    fields.push_back(line_);
  }
  return true;
}

std::string shown(const std::vector<std::string>& fields) {
  constexpr std::size_t widest = 24;
  std::vector<std::string> short_fields;
  for (const std::string& field : fields) short_fields.push_back(printable(shortened(field, widest)));
  return first_few(short_fields);
}

namespace {

/// "columns 1 and 3 are both called 'x'"; empty where all names are different.
std::string repeated_name(const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, std::size_t> first;
  for (std::size_t j = 0; j < names.size(); ++j) {
    const auto [found, is_new] = first.emplace(names[j], j + 1);
    if (!is_new) return fmt::format("columns {} and {} are both called '{}'", found->second, j + 1, names[j]);
  }
  return "";
}

}  // namespace

std::vector<std::string> split_fields(std::string_view text) {
  std::vector<std::string> fields;
  for (const std::string_view field : split_columns(text, ',')) {
    const auto words = split_words(field);
    fields.push_back(join_words(words));
  }
  return fields;
}

std::size_t RecordReader::required() const {
  return static_cast<std::size_t>(std::ranges::count(roles_, false, &Role::is_optional));
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
          listed(chosen, ","), counted(given, "field"), required(), what(),
          has_more ? ", or more (further references)" : "");
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

/// The names of the columns that are called as the roles demand, one each; of two columns, one such name suffices.
/// Empty where the names do not say.
std::vector<std::string> RecordReader::names_of_roles(const std::vector<std::string>& names) const {
  std::vector<std::string> found;
  std::size_t unknown = 0;
  for (std::size_t k = 0; k < required(); ++k) {
    const auto fits = [&](const std::string& name) { return roles_[k].has(name); };
    const auto count = std::ranges::count_if(names, fits);
    if (count > 1) return {};
    if (count == 0) ++unknown;
    found.push_back(count == 0 ? "" : *std::ranges::find_if(names, fits));
  }
  if (unknown == 0) return found;
  if (unknown > 1 || names.size() != 2 || required() != 2) return {};
  std::ranges::replace(found, std::string(), names[names[0] == found[0] || names[0] == found[1]]);
  return found;
}

void RecordReader::find_fields() {
  std::vector<std::string> row;
  do {
    require(next_row(row), "{}: the file is empty", name());
  } while (is_blank_row(row));
  width_ = row.size();
  const bool is_json = format_ == RecordFormat::jsonl, is_conll = format_ == RecordFormat::conll;
  const bool is_conllu = is_conll && has_numbers_ && width_ == std::size(columns_of_conllu);
  const std::vector<std::string> names =
      is_json     ? keys_of(parse_record(*this, row[0]))
      : is_conllu ? std::vector<std::string>(std::begin(columns_of_conllu), std::end(columns_of_conllu))
                  : row;
  const bool may_be_header = !is_json && !is_conll && fields_.header != Header::no;
  std::vector<std::string>& chosen = fields_.names;
  if (chosen.empty() && (is_json || is_conllu || may_be_header)) chosen = names_of_roles(names);
  if (chosen.empty()) {
    require_here(!is_json && width_ == required(), "{} ({}), expected {} ({}){}; --columns {} chooses them{}",
                 counted(names.size(), is_json ? "key" : "column"), shown(names), required(), what(),
                 is_json ? " with names that are known" : "", what(), is_json ? "" : " by number from 1 or by name");
    for (std::size_t k = 1; k <= width_; ++k) chosen.push_back(std::to_string(k));
  }
  has_header_ = may_be_header && (fields_.header == Header::yes || !std::ranges::all_of(chosen, is_whole_number));
  if (const std::string repeated = has_header_ ? repeated_name(row) : ""; !repeated.empty()) fail_here("{}", repeated);
  const bool has_names = has_header_ || is_json || is_conllu;
  for (const std::string& field : chosen) {
    const auto named = has_names ? std::ranges::find(names, field) : names.end();
    columns_.push_back(named != names.end() ? static_cast<std::size_t>(named - names.begin() + 1)
                                            : fovea::number<std::size_t>(field).value_or(0));
    require_here(is_json || (columns_.back() > 0 && columns_.back() <= width_), "there is no column {}; {}{}",
                 is_whole_number(field) ? field : "'" + field + "'",
                 has_names ? "the columns are " + shown(names) : "there are " + counted(width_, "column"),
                 has_names ? did_you_mean(field, names) : "");
  }
  for (std::size_t k = required(); k < roles_.size(); ++k) {  // optional ones
    const auto named = std::ranges::find_if(names, [&](const std::string& name) { return roles_[k].has(name); });
    const bool is_there = has_names && named != names.end();
    columns_.push_back(is_there ? static_cast<std::size_t>(named - names.begin() + 1) : 0);
    chosen.push_back(is_there ? *named : "");
  }
  if (!has_header_) first_ = std::move(row);
}

std::string RecordReader::field_of(const Json& record, std::size_t k) const {
  const std::string& key = fields_.names[k];
  if (key.empty()) return "";
  const Json* value = find_value(record, key);
  if (value == nullptr && k < roles_.size() && roles_[k].is_optional) return "";
  if (value == nullptr) {
    const auto keys = keys_of(record);
    fail_here("there is no key '{}'; the keys are {}{}", key, first_few(keys), did_you_mean(key, keys));
  }
  if (value->is_string()) return value->get<std::string>();
  const bool takes_numbers = k < roles_.size() && roles_[k].takes_numbers;
  constexpr double exact = 1LL << 53;  // beyond, different numbers of a file may be equal in memory
  if (takes_numbers && value->is_number_float() && !(std::abs(value->get<double>()) <= exact))
    fail_here("'{}' is a number of more than 15 digits, {}; as a string in quotes it can be a label", key,
              value->dump());
  if (takes_numbers && (value->is_number() || value->is_boolean())) return value->dump();
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
    const Json record = parse_record(*this, row[0]);
    for (std::size_t k = 0; k < fields_.names.size(); ++k) values.push_back(field_of(record, k));
  } else {
    require_here(row.size() == width_, "{}, expected {} as in the first line", counted(row.size(), "column"), width_);
    for (const std::size_t column : columns_) values.push_back(column == 0 ? "" : row[column - 1]);
  }
  for (std::string& value : values) {
    value = on_one_line(std::move(value));
    if (const std::string fault = text_fault(value); !fault.empty()) fail_here("{}", fault);
  }
  return true;
}

std::vector<std::string> RecordReader::numbers() const {
  std::vector<std::string> numbers;
  for (const std::size_t column : columns_)
    if (column > 0) numbers.push_back(std::to_string(column));
  return numbers;
}

std::string RecordReader::description() const {
  std::vector<std::string> names = fields_.names;
  std::erase(names, "");
  if (names.empty()) return "";
  return fmt::format("{}{} {}", format_ == RecordFormat::jsonl ? "key" : "column", names.size() > 1 ? "s" : "",
                     listed(names, ", "));
}

std::vector<std::string> first_fields(const fs::path& file, RecordFormat format) {
  RecordReader reader(file, format);
  std::vector<std::string> row;
  while (reader.next_row(row))
    if (!is_blank_row(row)) return format == RecordFormat::jsonl ? keys_of(parse_record(reader, row[0])) : row;
  return {};
}

}  // namespace fovea
