#include "experiments/support/data/texts_to_label.h"

#include <algorithm>

#include "experiments/support/data/labelled_table.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"

namespace fovea {

namespace {

/// Files whose ending says nothing may be tables, too.
RecordFormat format_of(const std::filesystem::path& file) {
  const RecordFormat format = record_format(file);
  return format == RecordFormat::lines || format == RecordFormat::conll ? RecordFormat::tsv : format;
}

bool is_blank_row(const std::vector<std::string>& row) { return row.size() == 1 && is_blank(row[0]); }

}  // namespace

TextsToLabel::TextsToLabel(const std::filesystem::path& file, std::vector<std::string> classes, std::string columns)
    : table_(file, format_of(file)), format_(format_of(file)), classes_(std::move(classes)) {
  if (columns == text_before_label) columns = "1,2";
  if (columns == label_before_text) columns = "2,1";
  if (columns != automatic_columns) column_ = split_fields(columns)[0];
}

bool TextsToLabel::next(std::string& text) {
  std::vector<std::string> row;
  if (!table_.next(row)) return false;
  if (!has_begun_ && !is_blank_row(row) && !begin(row)) return false;
  text = text_of(row);
  return true;
}

/// Finds out how the rows look from the first one, and goes on to the next if that is a header.
bool TextsToLabel::begin(std::vector<std::string>& row) {
  has_begun_ = true;
  if (format_ == RecordFormat::jsonl) return true;
  width_ = row.size();
  place_ = named_column(row);
  const bool is_header = place_.has_value();
  if (!is_header) place_ = column_beside_label(row);
  if (!is_header && !place_ && format_ == RecordFormat::csv && width_ == 1) place_ = 0;
  require_here(place_ || format_ != RecordFormat::csv, "{}: which one is to be labelled? --columns TEXT,LABEL says it",
               counted(width_, "column"));
  if (place_ && width_ > 1) {
    note_ = fmt::format("{}: labels are for column {} of {}", name(), *place_ + 1, width_);
    if (is_header) note_ += fmt::format(", '{}'", row[*place_]);
  }
  return !is_header || table_.next(row);
}

/// The column of texts that a header names.
std::optional<std::size_t> TextsToLabel::named_column(const std::vector<std::string>& row) const {
  std::vector<std::size_t> found;
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (row[c] == column_) return c;
    if (names_texts(row[c])) found.push_back(c);
  }
  const bool is_table = row.size() > 1 || format_ == RecordFormat::csv;
  return found.size() == 1 && is_table ? std::optional(found[0]) : std::nullopt;
}

/// The column of texts in a row without names: the one that --columns counts, or the one beside a known class.
std::optional<std::size_t> TextsToLabel::column_beside_label(const std::vector<std::string>& row) const {
  const auto counted_column = fovea::number<std::size_t>(column_).value_or(0);
  if (row.size() > 1 && counted_column >= 1 && counted_column <= row.size()) return counted_column - 1;
  if (row.size() != 2) return std::nullopt;
  const auto is_class = [&](const std::string& field) {
    return std::find(classes_.begin(), classes_.end(), join_words(split_words(field))) != classes_.end();
  };
  if (is_class(row[0]) == is_class(row[1])) return std::nullopt;
  return is_class(row[0]) ? 1 : 0;
}

std::string TextsToLabel::text_of(const std::vector<std::string>& row) {
  if (is_blank_row(row)) return "";
  if (format_ == RecordFormat::jsonl) {
    const Json record = parse_record(table_, row[0]);
    if (column_.empty()) {
      for (const auto& [key, value] : record.items()) {
        if (names_texts(key)) column_ = key;
      }
      require_here(!column_.empty(),
                   "no key is called text or sentence: --columns KEY,LABEL says which one is the text");
    }
    if (note_.empty()) note_ = fmt::format("{}: labels are for the key '{}'", name(), column_);
    return text_field(table_, record, column_);
  }
  require_here(row.size() == width_ || !place_, "{}, expected {} as in the first line", counted(row.size(), "column"),
               width_);
  if (place_) return row[*place_];
  std::string line;
  for (const std::string& column : row) line += (&column == row.data() ? "" : "\t") + column;
  return line;
}

}  // namespace fovea
