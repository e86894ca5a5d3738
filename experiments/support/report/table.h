/// Tables as papers print them: on a terminal, in Markdown, LaTeX, JSON, CSV and HTML, from one object.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"

namespace fovea {

/// An entry of a table: a text, a number, a mean with its deviation, or nothing ("–").
class Cell {
 public:
  Cell() = default;
  Cell(const std::string& text);
  Cell(const char* text) : Cell(std::string(text)) {}
  template <std::integral T>
  Cell(T value) : Cell(whole(std::int64_t(value))) {}

  /// A number with `decimals` decimals: 80.31 for (80.308, 2). "–" for NaN.
  static Cell number(double value, int decimals);
  /// A mean with its deviation, 80.31 ± 0.42; without the deviation if that is NaN (a single run).
  static Cell mean(double mean, double deviation, int decimals);
  /// The mean and sample standard deviation of the values of several runs.
  static Cell mean_of(std::span<const double> values, int decimals);

 private:
  friend class Table;
  static Cell whole(std::int64_t value);

  bool is_empty() const { return text_.empty(); }
  std::string shown() const;

  std::string text_;                                  ///< rounded; empty: no value
  std::string deviation_;                             ///< rounded; empty: none
  Json exact_ = nullptr, exact_deviation_ = nullptr;  ///< in full precision
  bool is_number_ = false;
};

/// The widest line of a text for a terminal.
constexpr std::size_t terminal_columns = 120;

/// The text for a terminal below a table: its lines, each ended and folded to terminal_columns. Empty for no text.
std::string folded_lines(const std::string& text);

/// Rows under headings. Columns of numbers are aligned to the right, or at their ±, other columns to the left. Control
/// characters in texts are shown as pictures.
class Table {
 public:
  /// A column's rank decides when text() leaves it out: the highest ranks first. Without ranks all are alike.
  explicit Table(std::vector<std::string> headings, std::vector<int> ranks = {});

  /// Appends a row. Throws std::logic_error unless it has one cell for each heading.
  Table& row(std::vector<Cell> cells);
  /// Draws a line after the rows added so far.
  Table& rule();
  bool is_empty() const { return rows_.empty(); }

  /// The table for a terminal, with a line break at the end. It fits terminal_columns: headings and long texts are
  /// folded, or a table of a few long rows is turned, or columns are left out, and a line names them: those of the
  /// highest rank first, and of these the last.
  std::string text() const;
  std::string markdown() const;
  /// The table as a tabular environment of LaTeX, with the lines of the package booktabs.
  std::string latex() const;
  std::string csv() const;  ///< csv_of() its rows
  /// A row as an object with the headings as keys: [{"head": 1, "D": 2.5, "D deviation": 0.1}, ...]. Numbers are in
  /// full precision, absent values null.
  Json json() const;
  /// The table as a <table> element.
  std::string html() const;

 private:
  struct Layout;

  bool is_numeric(std::size_t column) const;
  bool has_rule_before(std::size_t row) const;
  bool has_deviations(std::size_t column) const;
  Layout layout(std::size_t column) const;
  /// The layouts of all columns, with headings and texts folded to `most` columns where this is possible, and the width
  /// of the table.
  std::pair<std::vector<Layout>, std::size_t> layouts(std::size_t most) const;
  bool fits() const;
  /// The text in as many columns as it takes with folded headings and texts.
  std::string folded_text() const;
  Table transposed() const;
  /// The table with these columns alone.
  Table of_columns(const std::vector<std::size_t>& places) const;

  std::vector<std::string> headings_;
  std::vector<int> ranks_;  ///< of the columns
  std::vector<std::vector<Cell>> rows_;
  std::vector<std::size_t> rules_;  ///< a line comes before each of these rows
};

/// The rows of tables as CSV, with every column that any of them has.
std::string csv_of(const std::vector<Json>& rows);

/// A column of a table whose rows are made from values of one type.
template <class Value>
struct Column {
  std::string heading;
  std::function<Cell(const Value&)> cell;
  int rank = 0;
};
template <class Value>
Table table_of(const std::vector<Column<Value>>& columns, const std::vector<Value>& values) {
  std::vector<std::string> headings;
  std::vector<int> ranks;
  for (const Column<Value>& column : columns) headings.push_back(column.heading), ranks.push_back(column.rank);
  Table table(headings, ranks);
  for (const Value& value : values) {
    std::vector<Cell> cells;
    for (const Column<Value>& column : columns) cells.push_back(column.cell(value));
    table.row(std::move(cells));
  }
  return table;
}

}  // namespace fovea
