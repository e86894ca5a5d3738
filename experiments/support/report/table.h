/// Tables as papers print them: on a terminal, in Markdown, CSV and HTML, from one object.
#pragma once
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fovea {

/// An entry of a table: a text, a number, a mean with its deviation, or nothing ("–").
class Cell {
 public:
  Cell() = default;
  Cell(std::string text);
  Cell(const char* text) : Cell(std::string(text)) {}
  template <std::integral T>
  Cell(T value) : Cell(whole(std::int64_t(value))) {}

  /// 80.31 for (80.308, 2); "–" for NaN.
  static Cell number(double value, int decimals);
  /// 80.31 ± 0.42; without the deviation where it is NaN (a single run).
  static Cell mean(double mean, double deviation, int decimals);
  /// Mean and sample standard deviation of some runs.
  static Cell mean_of(std::span<const double> values, int decimals);

  /// A sign of significance, or anything short, behind the value: 24.77↑
  Cell& mark(std::string sign) { return mark_ = std::move(sign), *this; }
  /// The best of its column, say: bold where there is bold.
  Cell& strong(bool is_strong = true) { return strong_ = is_strong, *this; }

 private:
  friend class Table;
  static Cell whole(std::int64_t value);

  bool is_empty() const { return text_.empty(); }
  std::string shown() const;

  std::string text_;       ///< rounded; empty: nothing
  std::string deviation_;  ///< rounded; empty: none
  std::string mark_;
  std::string exact_text_, exact_deviation_;  ///< for CSV
  bool is_number_ = false, strong_ = false;
};

/// Rows under headings. A column of numbers is set to the right, everything else to the left; control characters in
/// texts are shown as pictures. Columns with a ± align at it.
class Table {
 public:
  explicit Table(std::vector<std::string> headings);

  /// Appends a row with one cell for each heading; std::logic_error otherwise.
  Table& row(std::vector<Cell> cells);
  /// A line between the rows before and those after.
  Table& rule();

  /// For a terminal, with a line break at the end.
  std::string text() const;
  std::string markdown() const;
  /// Full precision; a column with deviations is followed by `HEADING deviation`.
  std::string csv() const;
  /// A <table>, escaped.
  std::string html() const;

 private:
  struct Layout;

  bool is_numeric(std::size_t column) const;
  bool has_rule_before(std::size_t row) const;
  bool has_deviations(std::size_t column) const;
  Layout layout(std::size_t column) const;

  std::vector<std::string> headings_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<std::size_t> rules_;  ///< a line comes before each of these rows
};

}  // namespace fovea
