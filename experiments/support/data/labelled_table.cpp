#include "experiments/support/data/labelled_table.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/suggestion.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> text_names = {"sentence", "text", "review", "phrase", "document"};
const std::vector<std::string> label_names = {"label", "class", "sentiment", "category", "polarity", "target"};

bool is_one_of(std::string_view name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), lower_case(name)) != names.end();
}

struct Row {
  std::vector<std::string> fields;
  std::int64_t line = 0;
};

/// The rows of a file that are not blank, at least one.
struct Table {
  std::string name;
  std::vector<Row> rows;

  template <class... Args>
  [[noreturn]] void fail_at(const Row& row, fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}:{}: {}", name, row.line, fmt::format(format, std::forward<Args>(args)...));
  }
};

/// The positions of the text column and the label column, and whether the first row is a header.
struct TableLayout {
  std::size_t columns = 2, text = 0, label = 1;
  bool header = false;
  std::vector<std::string> names;  ///< the training file's header: other parts may repeat it
};

/// Facts about the values of one column, for guessing whether it has texts or labels. The first row is left out,
/// because it may be a header.
struct ColumnFacts {
  std::unordered_set<std::string_view> values;
  std::size_t words = 0;
  bool integers = true;
};

ColumnFacts facts_of(const Table& table, std::size_t column) {
  ColumnFacts facts;
  const std::size_t columns = table.rows[0].fields.size();
  for (std::size_t i = 1; i < table.rows.size(); ++i) {
    const auto& fields = table.rows[i].fields;
    if (fields.size() != columns) continue;  // reported with its line when the rows are read
    facts.values.insert(fields[column]);
    facts.words += split_words(fields[column]).size();
    facts.integers = facts.integers && is_whole_number(fields[column]);
  }
  return facts;
}

/// Which of two columns holds the labels: the one with fewer different values, unless its texts are the longer ones.
std::optional<std::size_t> label_column(const ColumnFacts& first, const ColumnFacts& second) {
  const auto looks_like_label = [](const ColumnFacts& column, const ColumnFacts& other) {
    return column.values.size() <= other.values.size() && column.words <= other.words &&
           (column.values.size() < other.values.size() || column.words < other.words);
  };
  if (looks_like_label(first, second)) return 0;
  if (looks_like_label(second, first)) return 1;
  return std::nullopt;
}

/// The positions of the one text and the one label column that a header names.
std::optional<std::pair<std::size_t, std::size_t>> named_columns(const std::vector<std::string>& row) {
  std::vector<std::size_t> texts, labels;
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (names_texts(row[c])) texts.push_back(c);
    if (names_labels(row[c])) labels.push_back(c);
  }
  if (texts.size() != 1 || labels.size() != 1) return std::nullopt;
  return std::pair(texts[0], labels[0]);
}

/// Throws Error, with its line, for the first row that does not have two columns. Called when text and label cannot be
/// told apart, because a wrong number of columns is then the likely cause.
void require_two_columns(const Table& table) {
  for (const Row& row : table.rows) {
    if (row.fields.size() != 2)
      table.fail_at(row, "{}, expected 2 (sentence and label)", counted(row.fields.size(), "column"));
  }
}

std::size_t label_of_two_columns(const Table& table, const SentimentOptions& options) {
  if (options.columns != automatic_columns) return options.columns == text_before_label ? 1 : 0;
  const ColumnFacts first = facts_of(table, 0), second = facts_of(table, 1);
  const auto label = label_column(first, second);
  if (!label) require_two_columns(table);
  require(table.rows.size() > 1,
          "{}: one line only ({}); expected examples of two labels or more, below a header if any", table.name,
          shown(table.rows[0].fields));
  require(label.has_value(),
          "{}: which of the two columns is the label? The first has {} different values, the second {}: "
          "say --columns text-label or label-text",
          table.name, first.values.size(), second.values.size());
  return *label;
}

/// A header's label occurs in no other row, and names a column or is the only one that is not a whole number.
bool first_row_is_header(const Table& table, const TableLayout& layout) {
  const auto& row = table.rows[0].fields;
  const ColumnFacts labels = facts_of(table, layout.label);
  const bool names_one = names_labels(row[layout.label]) || names_texts(row[layout.text]);
  const bool odd_one_out = !is_whole_number(row[layout.label]) && labels.integers;
  return !labels.values.empty() && !labels.values.contains(row[layout.label]) && (names_one || odd_one_out);
}

/// Throws Error if the first row, read as an example, is likely a header of unknown names: its label occurs in no other
/// row, although labels repeat.
void refuse_likely_header(const Table& table, const TableLayout& layout) {
  const Row& first = table.rows[0];
  const ColumnFacts labels = facts_of(table, layout.label);
  const bool labels_repeat = table.rows.size() >= 10 && 2 * labels.values.size() < table.rows.size();
  if (labels_repeat && !labels.values.contains(first.fields[layout.label]))
    table.fail_at(first,
                  "looks like a header ({}): the label '{}' is on no other line; give --header yes if the line names "
                  "the columns, --header no if it is an example",
                  shown(first.fields), first.fields[layout.label]);
}

/// Columns that --columns names or counts.
TableLayout chosen_layout(const Table& table, const std::vector<std::string>& fields) {
  const Row& first = table.rows[0];
  TableLayout layout;
  std::size_t* const places[] = {&layout.text, &layout.label};
  for (std::size_t k = 0; k < 2; ++k) {
    const auto named = std::find(first.fields.begin(), first.fields.end(), fields[k]);
    const bool is_name = named != first.fields.end() && !is_whole_number(fields[k]);
    const std::size_t column =
        is_name ? std::size_t(named - first.fields.begin()) + 1 : number<std::size_t>(fields[k]).value_or(0);
    if (column == 0 || column > first.fields.size()) {
      table.fail_at(first, "there is no column {}; the first line has {}: {}{}",
                    is_whole_number(fields[k]) ? fields[k] : "'" + fields[k] + "'",
                    counted(first.fields.size(), "column"), shown(first.fields), did_you_mean(fields[k], first.fields));
    }
    *places[k] = column - 1;
    layout.header = layout.header || is_name;
  }
  require(layout.text != layout.label, "--columns {}: one column cannot be text and label", listed(fields, ","));
  layout.header = layout.header || first_row_is_header(table, layout);
  return layout;
}

TableLayout found_layout(const Table& table, const SentimentOptions& options) {
  const Row& first = table.rows[0];
  const auto names = options.header == Header::no ? std::nullopt : named_columns(first.fields);
  TableLayout layout;
  if (first.fields.size() == 2 && (!names.has_value() || options.columns != automatic_columns)) {
    layout.label = label_of_two_columns(table, options);
    layout.text = 1 - layout.label;
    layout.header = first_row_is_header(table, layout);
  } else if (names.has_value()) {
    layout.text = names->first;
    layout.label = names->second;
    layout.header = true;
  } else {
    if (const std::string repeated = repeated_name(first.fields); !repeated.empty() && options.header != Header::no)
      table.fail_at(first, "{}", repeated);
    table.fail_at(
        first,
        "{} ({}), expected 2 (sentence and label), or a header that names one column {} and one {}; --columns "
        "TEXT,LABEL chooses two by number from 1 or by name",
        counted(first.fields.size(), "column"), shown(first.fields), listed(text_names), listed(label_names));
  }
  return layout;
}

/// The text's and the label's column of --columns; empty where they are to be found out.
std::vector<std::string> chosen_fields(const std::string& columns) {
  if (columns == automatic_columns || columns == text_before_label || columns == label_before_text) return {};
  std::vector<std::string> fields = split_fields(columns);
  require(fields.size() == 2 && !fields[0].empty() && !fields[1].empty(),
          "--columns {}: expected auto, text-label, label-text, or the columns of text and label by number or name: "
          "1,2 or sentence,label",
          columns);
  return fields;
}

TableLayout layout_of(const Table& table, const SentimentOptions& options) {
  const auto fields = chosen_fields(options.columns);
  TableLayout layout = fields.empty() ? found_layout(table, options) : chosen_layout(table, fields);
  layout.columns = table.rows[0].fields.size();
  if (options.header != Header::automatic) layout.header = options.header == Header::yes;
  if (!layout.header) return layout;
  layout.names = table.rows[0].fields;
  if (const std::string repeated = repeated_name(layout.names); !repeated.empty())
    table.fail_at(table.rows[0], "{}", repeated);
  for (std::string& name : layout.names) name = lower_case(name);
  return layout;
}

std::string row_shape(const TableLayout& layout) {
  if (layout.columns > 2) return layout.header ? "as the header has" : "as the first line has";
  return layout.label == 1 ? "sentence, label" : "label, sentence";
}

struct TableRow {
  std::string_view text, label;
  const Row* row;
};

/// The texts and labels of a table of the layout; `header` says whether the first row is one.
std::vector<TableRow> table_rows(const Table& table, const TableLayout& layout, bool header) {
  std::vector<TableRow> rows;
  for (std::size_t i = header ? 1 : 0; i < table.rows.size(); ++i) {
    const Row& row = table.rows[i];
    if (row.fields.size() != layout.columns) {
      table.fail_at(row, "{}, expected {} ({})", counted(row.fields.size(), "column"), layout.columns,
                    row_shape(layout));
    }
    const auto label = split_words(row.fields[layout.label]);
    if (label.empty()) table.fail_at(row, "the label is empty");
    if (is_blank(row.fields[layout.text])) table.fail_at(row, "the sentence is empty");
    const char* begin = label.front().data();
    const std::string_view trimmed(begin, static_cast<std::size_t>(label.back().data() + label.back().size() - begin));
    rows.push_back({.text = row.fields[layout.text], .label = trimmed, .row = &row});
  }
  return rows;
}

/// The labels in the order of their numbers, or of their bytes where they are not all whole numbers.
std::vector<std::string> classes_of(const Table& table, const std::vector<TableRow>& rows) {
  std::set<std::string> distinct;
  for (const TableRow& row : rows) {
    distinct.emplace(row.label);
    if (distinct.size() > 1000) {
      table.fail_at(*row.row,
                    "more than 1000 different labels, the last '{}': is this the column of the sentences? "
                    "(--columns)",
                    row.label.substr(0, 40));
    }
  }
  std::vector<std::string> classes(distinct.begin(), distinct.end());
  if (std::all_of(classes.begin(), classes.end(), is_whole_number)) {
    const auto value = [](const std::string& label) { return number<double>(label).value_or(0); };
    std::stable_sort(classes.begin(), classes.end(), [&](const auto& a, const auto& b) { return value(a) < value(b); });
  }
  return classes;
}

std::vector<Example> labelled(const Table& table, const std::vector<TableRow>& rows,
                              const std::vector<std::string>& classes, const std::string& train_name) {
  std::unordered_map<std::string_view, int> index;
  for (std::size_t c = 0; c < classes.size(); ++c) index.emplace(classes[c], static_cast<int>(c));
  std::vector<Example> examples;
  examples.reserve(rows.size());
  for (const TableRow& row : rows) {
    const auto found = index.find(row.label);
    if (found == index.end()) {
      table.fail_at(*row.row, "label '{}' does not occur in {} ({})", row.label, train_name, first_few(classes));
    }
    examples.push_back({.text = join_words(split_words(row.text)), .label = found->second});
  }
  return examples;
}

/// Another part of the table: its first row is a header if it is the training file's.
std::vector<Example> load_part(const Table& table, TableLayout layout, const SentimentOptions& options,
                               const std::vector<std::string>& classes, const std::string& train_name) {
  const Row& first = table.rows[0];
  if (first.fields.size() == 2 && lower_case(first.fields[0]) == "index" && names_texts(first.fields[1])) {
    table.fail_at(first,
                  "columns {} and {}, no label (GLUE's hidden test labels?): move this file away, and 10 % of the "
                  "training texts become the test part",
                  first.fields[0], first.fields[1]);
  }
  if (layout.header && !chosen_fields(options.columns).empty()) {
    layout = layout_of(table, options);  // its columns may have another order
    return labelled(table, table_rows(table, layout, layout.header), classes, train_name);
  }
  std::vector<std::string> names = first.fields;
  for (std::string& name : names) name = lower_case(name);
  return labelled(table, table_rows(table, layout, layout.header && names == layout.names), classes, train_name);
}

/// Two columns, text and label, made of the objects' keys.
Table read_json_table(const fs::path& file, const SentimentOptions& options) {
  std::vector<std::string> fields = chosen_fields(options.columns);
  if (fields.empty()) {
    const std::vector<std::string> keys = first_fields(file, RecordFormat::jsonl);
    require(!keys.empty(), "{}: the file is empty", file.string());
    const auto named = named_columns(keys);
    require(named.has_value(), "{}: which keys are text and label? Say --columns TEXT,LABEL with two of {}",
            file.string(), first_few(keys));
    fields = {keys[named->first], keys[named->second]};
  }
  RecordReader reader(file, RecordFormat::jsonl, {.names = fields});
  reader.take_numbers(1);
  Table table{.name = reader.name(), .rows = {}};
  for (Row row; reader.next(row.fields); table.rows.push_back(row)) row.line = reader.number();
  require(!table.rows.empty(), "{}: the file is empty", table.name);
  return table;
}

Table read_table(const fs::path& file, const SentimentOptions& options) {
  const RecordFormat format = record_format(file);
  if (format == RecordFormat::jsonl) return read_json_table(file, options);
  TableReader reader(file, format == RecordFormat::csv ? format : RecordFormat::tsv);
  Table table{.name = reader.name(), .rows = {}};
  for (Row row; reader.next(row.fields);) {
    row.line = reader.number();
    if (row.fields.size() > 1 || !is_blank(row.fields[0])) table.rows.push_back(row);
  }
  require(!table.rows.empty(), "{}: the file is empty", table.name);
  return table;
}

Table table_of(const TextFile& file) {
  Table table{.name = file.name, .rows = {}};
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    if (is_blank(file.lines[i])) continue;
    const auto columns = split_columns(file.lines[i]);
    table.rows.push_back({{columns.begin(), columns.end()}, static_cast<std::int64_t>(i) + 1});
  }
  return table;
}

ClassificationData load_parts(const SentimentOptions& options, const SplitFiles& files, const Table& train) {
  const bool is_json = record_format(files.train) == RecordFormat::jsonl;
  const TableLayout layout = is_json ? TableLayout() : layout_of(train, options);
  const auto rows = table_rows(train, layout, layout.header);
  if (!is_json && !layout.header && options.header == Header::automatic) refuse_likely_header(train, layout);
  require(!rows.empty(), "{}: the file has a header ({}), but no line below it", train.name,
          shown(train.rows[0].fields));
  ClassificationData data;
  data.classes = classes_of(train, rows);
  require(options.classes == 0 || static_cast<std::size_t>(options.classes) == data.classes.size(),
          "{}: {} different labels ({}), --classes asks for {}", train.name, data.classes.size(),
          first_few(data.classes), options.classes);
  const auto fields = chosen_fields(options.columns);
  const std::string order = layout.label > layout.text ? "text, label" : "label, text";
  data.source = fmt::format("{}: {}, {}{}", named(files), is_json ? "JSON lines" : "table",
                            fields.empty() ? order : fmt::format("text {}, label {}", fields[0], fields[1]),
                            layout.header ? " under a header" : "");
  data.train = labelled(train, rows, data.classes, train.name);
  const auto part = [&](const fs::path& file) {
    return load_part(read_table(file, options), layout, options, data.classes, train.name);
  };
  if (!files.dev.empty()) data.dev = part(files.dev);
  if (!files.test.empty()) data.test = part(files.test);
  return data;
}

}  // namespace

bool names_texts(std::string_view column) { return is_one_of(column, text_names); }
bool names_labels(std::string_view column) { return is_one_of(column, label_names); }

ClassificationData load_table(const SentimentOptions& options, const SplitFiles& files, const TextFile& train) {
  return load_parts(options, files, table_of(train));
}

ClassificationData load_records(const SentimentOptions& options, const SplitFiles& files) {
  return load_parts(options, files, read_table(files.train, options));
}

}  // namespace fovea
