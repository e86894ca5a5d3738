#include "experiments/support/data/labelled_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> text_names = {"sentence", "text", "review", "phrase", "document"};
const std::vector<std::string> label_names = {"label", "class", "sentiment", "category", "polarity", "target"};

bool is_one_of(std::string_view name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), lower_case(name)) != names.end();
}

/// Which columns of a table are read, and whether its first line only names them.
struct TableLayout {
  std::size_t columns = 2, text = 0, label = 1;
  bool header = false;
  std::string first_line;  ///< the training file's header: other parts may repeat it
};

bool is_integer(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// What a column looks like from its second line on.
struct ColumnFacts {
  std::unordered_set<std::string_view> values;
  std::size_t words = 0;
  bool integers = true;
};

std::array<ColumnFacts, 2> facts_of_two(const TextFile& file, std::size_t first) {
  std::array<ColumnFacts, 2> facts;
  for (std::size_t i = first + 1; i < file.lines.size(); ++i) {
    const auto columns = split_columns(file.lines[i]);
    if (columns.size() != 2) continue;  // reported with its line when the rows are read
    for (std::size_t c = 0; c < 2; ++c) {
      facts[c].values.insert(columns[c]);
      facts[c].words += split_words(columns[c]).size();
      facts[c].integers = facts[c].integers && is_integer(columns[c]);
    }
  }
  return facts;
}

/// Which of two columns holds the labels: the one with fewer different values, unless its texts are the longer ones.
std::optional<std::size_t> label_column(const std::array<ColumnFacts, 2>& facts) {
  const auto looks_like_label = [&](std::size_t c) {
    const std::size_t o = 1 - c;
    return facts[c].values.size() <= facts[o].values.size() && facts[c].words <= facts[o].words &&
           (facts[c].values.size() < facts[o].values.size() || facts[c].words < facts[o].words);
  };
  if (looks_like_label(0)) return 0;
  if (looks_like_label(1)) return 1;
  return std::nullopt;
}

/// The positions of the one text and the one label column that a header names.
std::optional<std::pair<std::size_t, std::size_t>> named_columns(const std::vector<std::string_view>& row) {
  std::vector<std::size_t> texts, labels;
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (is_one_of(row[c], text_names)) texts.push_back(c);
    if (is_one_of(row[c], label_names)) labels.push_back(c);
  }
  if (texts.size() != 1 || labels.size() != 1) return std::nullopt;
  return std::pair(texts[0], labels[0]);
}

/// Where nothing can be made of two columns, a line that has another number of them is the likelier trouble.
void require_two_columns(const TextFile& file) {
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::size_t columns = split_columns(file.lines[i]).size();
    if (columns != 2 && !is_blank(file.lines[i]))
      file.fail_at(i, "{}, expected 2 (sentence and label)", counted(columns, "column"));
  }
}

TableLayout two_column_layout(const TextFile& file, std::size_t first, const SentimentOptions& options) {
  TableLayout layout;
  const auto facts = facts_of_two(file, first);
  if (options.columns == Columns::automatic) {
    const auto label = label_column(facts);
    if (!label) require_two_columns(file);
    require(label.has_value(),
            "{}: which of the two columns is the label? The first has {} different values, the second {}: "
            "say --columns text-label or label-text",
            file.name, facts[0].values.size(), facts[1].values.size());
    layout.label = *label;
  } else {
    layout.label = options.columns == Columns::text_label ? 1 : 0;
  }
  layout.text = 1 - layout.label;
  const auto row = split_columns(file.lines[first]);
  const ColumnFacts& labels = facts[layout.label];
  const bool names_one = is_one_of(row[layout.label], label_names) || is_one_of(row[layout.text], text_names);
  const bool odd_one_out = !is_integer(row[layout.label]) && labels.integers;
  layout.header = !labels.values.empty() && !labels.values.contains(row[layout.label]) && (names_one || odd_one_out);
  return layout;
}

TableLayout layout_of(const TextFile& file, const SentimentOptions& options) {
  const std::size_t first = file.first_line();
  const auto row = split_columns(file.lines[first]);
  const auto names = options.header == Header::no ? std::nullopt : named_columns(row);
  TableLayout layout;
  if (row.size() == 2 && (!names.has_value() || options.columns != Columns::automatic)) {
    layout = two_column_layout(file, first, options);
  } else if (names.has_value()) {
    layout.text = names->first;
    layout.label = names->second;
    layout.header = true;
  } else {
    file.fail_at(first, "{}, expected 2 (sentence and label), or a header that names one column {} and one {}",
                 counted(row.size(), "column"), listed(text_names), listed(label_names));
  }
  layout.columns = row.size();
  if (options.header != Header::automatic) layout.header = options.header == Header::yes;
  if (layout.header) layout.first_line = lower_case(file.lines[first]);
  return layout;
}

std::string row_shape(const TableLayout& layout) {
  if (layout.columns > 2) return "as the header has";
  return layout.label == 1 ? "sentence, label" : "label, sentence";
}

struct TableRow {
  std::string_view text, label;
  std::size_t line;
};

/// The rows of a file of the layout; `header` says whether the first line is one.
std::vector<TableRow> table_rows(const TextFile& file, const TableLayout& layout, bool header) {
  std::vector<TableRow> rows;
  const std::size_t first = file.first_line() + (header ? 1 : 0);
  for (std::size_t i = first; i < file.lines.size(); ++i) {
    if (is_blank(file.lines[i])) continue;
    const auto columns = split_columns(file.lines[i]);
    if (columns.size() != layout.columns) {
      file.fail_at(i, "{}, expected {} ({})", counted(columns.size(), "column"), layout.columns, row_shape(layout));
    }
    const auto label = split_words(columns[layout.label]);
    if (label.empty()) file.fail_at(i, "the label is empty");
    if (is_blank(columns[layout.text])) file.fail_at(i, "the sentence is empty");
    const char* begin = label.front().data();
    const std::string_view trimmed(begin, static_cast<std::size_t>(label.back().data() + label.back().size() - begin));
    rows.push_back({.text = columns[layout.text], .label = trimmed, .line = i});
  }
  return rows;
}

/// The labels in the order of their numbers, or of their bytes where they are not all numbers.
std::vector<std::string> classes_of(const TextFile& file, const std::vector<TableRow>& rows) {
  std::set<std::string> distinct;
  for (const TableRow& row : rows) {
    distinct.emplace(row.label);
    if (distinct.size() > 1000) {
      file.fail_at(row.line,
                   "more than 1000 different labels, the last '{}': is this the column of the sentences? "
                   "(--columns)",
                   row.label.substr(0, 40));
    }
  }
  std::vector<std::string> classes(distinct.begin(), distinct.end());
  if (std::all_of(classes.begin(), classes.end(), is_integer)) {
    std::stable_sort(classes.begin(), classes.end(),
                     [](const auto& a, const auto& b) { return std::stoi(a) < std::stoi(b); });
  }
  return classes;
}

std::vector<Example> labelled(const TextFile& file, const std::vector<TableRow>& rows,
                              const std::vector<std::string>& classes, const std::string& train_name) {
  std::unordered_map<std::string_view, int> index;
  for (std::size_t c = 0; c < classes.size(); ++c) index.emplace(classes[c], static_cast<int>(c));
  std::vector<Example> examples;
  examples.reserve(rows.size());
  for (const TableRow& row : rows) {
    const auto found = index.find(row.label);
    if (found == index.end()) {
      file.fail_at(row.line, "label '{}' does not occur in {} ({})", row.label, train_name, listed(classes));
    }
    examples.push_back({.text = join_words(split_words(row.text)), .label = found->second});
  }
  return examples;
}

/// Another part of the table: its first line is a header if it is the training file's.
std::vector<Example> load_table_part(const fs::path& path, const TableLayout& train,
                                     const std::vector<std::string>& classes, const std::string& train_name) {
  const TextFile file = read_lines(path);
  const std::size_t first = file.first_line();
  const auto row = split_columns(file.lines[first]);
  if (row.size() == 2 && lower_case(row[0]) == "index" && is_one_of(row[1], text_names)) {
    file.fail_at(first,
                 "columns {} and {}, no label (GLUE's hidden test labels?): move this file away, and 10 % of the "
                 "training texts become the test part",
                 row[0], row[1]);
  }
  const bool header = train.header && lower_case(file.lines[first]) == train.first_line;
  return labelled(file, table_rows(file, train, header), classes, train_name);
}

}  // namespace

ClassificationData load_table(const SentimentOptions& options, const SplitFiles& files, const TextFile& train) {
  const TableLayout layout = layout_of(train, options);
  const auto rows = table_rows(train, layout, layout.header);
  ClassificationData data;
  data.classes = classes_of(train, rows);
  require(options.classes == 0 || static_cast<std::size_t>(options.classes) == data.classes.size(),
          "{}: {} different labels ({}), --classes asks for {}", train.name, data.classes.size(),
          listed(data.classes, ", "), options.classes);
  data.source = fmt::format("{}: table, {}{}", named(files), layout.label > layout.text ? "text, label" : "label, text",
                            layout.header ? " under a header" : "");
  data.train = labelled(train, rows, data.classes, train.name);
  if (!files.dev.empty()) data.dev = load_table_part(files.dev, layout, data.classes, train.name);
  if (!files.test.empty()) data.test = load_table_part(files.test, layout, data.classes, train.name);
  return data;
}

}  // namespace fovea
