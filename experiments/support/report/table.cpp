#include "experiments/support/report/table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/report/html.h"
#include "experiments/support/text/words.h"

namespace fovea {
namespace {

const char* const nothing = "–";

std::string padding(std::size_t width, const std::string& text) {
  return std::string(width - std::min(width, display_width(text)), ' ');
}

std::string on_the_left(const std::string& text, std::size_t width) { return text + padding(width, text); }
std::string on_the_right(const std::string& text, std::size_t width) { return padding(width, text).append(text); }

const std::string column_gap(2, ' ');  ///< between columns

constexpr std::size_t narrowest_text = 24, longest_word = 32, narrowest_heading = 8;

/// The text in lines of at most this width, broken behind some of these signs.
std::vector<std::string> broken_behind(std::string_view signs, std::string_view text, std::size_t width) {
  std::vector<std::string> lines{""};
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    end = std::min(text.find_first_of(signs, at), text.size() - 1) + 1;
    const std::string part(text.substr(at, end - at));
    if (!lines.back().empty() && display_width(trimmed(lines.back() + part)) > width) lines.emplace_back();
    lines.back() += part;
  }
  for (std::string& line : lines) line = trimmed(line);
  return lines;
}

std::vector<std::string> folded_heading(const std::string& text, std::size_t width) {
  return broken_behind(" _/", text, width);
}

/// The text in lines of at most this width, broken at spaces. A longer word stays whole up to 32 columns, and is broken
/// behind the signs of specifications and paths beyond.
std::vector<std::string> folded(const std::string& text, std::size_t width) {
  const std::string wrapped_text = wrapped(text, 0, 0, width);
  const std::size_t most = std::max(width, longest_word);
  std::vector<std::string> lines;
  for (const std::string_view line : split_columns(wrapped_text, '\n')) {
    if (display_width(line) <= most)
      lines.emplace_back(line);
    else
      std::ranges::move(broken_behind(",+(/_", line, most), std::back_inserter(lines));
  }
  return lines;
}

/// Escapes Markdown's signs: without this, `heads(global*4, gaussian*4)` would be half italic.
std::string escape_markdown(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (std::string_view("\\`*_[<|").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

/// Text for LaTeX: its own signs and the characters that our tables have are written in ways that pdfLaTeX knows.
std::string escape_latex(const std::string& text) {
  // each sign, and how it is written
  static const std::vector<std::string_view> signs = split_words(
      R"(\ \textbackslash{} { \{ } \} $ \$ & \& # \# _ \_ % \% ~ \textasciitilde{} ^ \textasciicircum{} < $<$ > $>$
      -- -{}- – -- ± $\pm$ → $\to$ τ $\tau$ σ $\sigma$ β $\beta$ ∞ $\infty$ √ $\surd$ × $\times$)");
  std::string result;
  for (std::size_t at = 0, length = 1; at < text.size(); at += length) {
    std::size_t k = 0;
    while (k < signs.size() && text.compare(at, signs[k].size(), signs[k]) != 0) k += 2;
    length = k < signs.size() ? signs[k].size() : 1;
    result += k < signs.size() ? signs[k + 1] : std::string_view(text).substr(at, 1);
  }
  return result;
}

/// The number for JSON: a whole one without a point, infinity as text.
Json exact_number(double number) {
  if (!std::isfinite(number)) return fmt::format("{}", number);
  return number == std::floor(number) && std::abs(number) < 1e15 ? Json(std::int64_t(number)) : Json(number);
}

}  // namespace

Cell::Cell(const std::string& text) : text_(printable(text)) {
  if (!text.empty()) exact_ = text;
}

Cell Cell::whole(std::int64_t value) {
  Cell cell(std::to_string(value));
  cell.is_number_ = true, cell.exact_ = value;
  return cell;
}

Cell Cell::number(double value, int decimals) { return mean(value, std::nan(""), decimals); }

Cell Cell::mean(double mean, double deviation, int decimals) {
  Cell cell;
  cell.is_number_ = true;
  if (std::isnan(mean)) return cell;
  cell.text_ = rounded_text(mean, decimals);
  cell.exact_ = exact_number(mean);
  if (std::isnan(deviation)) return cell;
  cell.deviation_ = rounded_text(deviation, decimals);
  cell.exact_deviation_ = exact_number(deviation);
  return cell;
}

Cell Cell::mean_of(std::span<const double> values, int decimals) {
  return mean(fovea::mean(values), sample_standard_deviation(values), decimals);
}

std::string Cell::shown() const {
  const std::string text = is_empty() ? nothing : text_;
  return deviation_.empty() ? text : text + " ± " + deviation_;
}

std::string folded_lines(const std::string& text) {
  std::string lines;
  for (const std::string_view line : split_columns(text, '\n'))
    if (!line.empty()) lines += wrapped(line, 0, 0, terminal_columns) + "\n";
  return lines;
}

/// The widths of a column and of its parts: "80.31", "0.42" behind the ±.
struct Table::Layout {
  bool is_numeric = false;
  std::size_t value = 0, deviation = 0, column = 0;

  /// The cell in lines: a number is one, a text is folded at spaces if it is wider than the column.
  std::vector<std::string> lines(const Cell& cell) const {
    if (!is_numeric) return folded(cell.shown(), column);
    std::string result = on_the_right(cell.is_empty() ? nothing : cell.text_, value);
    if (deviation > 0)
      result +=
          cell.deviation_.empty() ? std::string(3 + deviation, ' ') : " ± " + on_the_right(cell.deviation_, deviation);
    return {on_the_right(result, column)};
  }
};

Table::Table(std::vector<std::string> headings, std::vector<int> ranks)
    : headings_(std::move(headings)), ranks_(std::move(ranks)) {
  ranks_.resize(headings_.size());
  for (std::string& heading : headings_) heading = printable(heading);
}

Table& Table::row(std::vector<Cell> cells) {
  if (cells.size() != headings_.size()) {
    throw std::logic_error(fmt::format("a table with {} columns got a row of {}", headings_.size(), cells.size()));
  }
  rows_.push_back(std::move(cells));
  return *this;
}

Table& Table::rule() { return rules_.push_back(rows_.size()), *this; }

bool Table::has_rule_before(std::size_t row) const { return std::ranges::count(rules_, row) > 0; }

bool Table::is_numeric(std::size_t column) const {
  return !rows_.empty() &&
         std::ranges::all_of(rows_, [&](const auto& row) { return row[column].is_number_ || row[column].is_empty(); });
}

bool Table::has_deviations(std::size_t column) const {
  return std::ranges::any_of(rows_, [&](const auto& row) { return !row[column].deviation_.empty(); });
}

Table::Layout Table::layout(std::size_t column) const {
  Layout layout;
  layout.is_numeric = is_numeric(column);
  for (const auto& row : rows_) {
    const Cell& cell = row[column];
    layout.value =
        std::max(layout.value, display_width(layout.is_numeric && !cell.is_empty() ? cell.text_ : cell.shown()));
    if (layout.is_numeric) layout.deviation = std::max(layout.deviation, display_width(cell.deviation_));
  }
  layout.column = layout.value + (layout.deviation > 0 ? 3 + layout.deviation : 0);  // " ± "
  return layout;
}

std::pair<std::vector<Table::Layout>, std::size_t> Table::layouts(std::size_t most) const {
  std::vector<Layout> all;
  std::size_t width = 0;
  for (std::size_t c = 0; c < headings_.size(); ++c) {
    Layout& one = all.emplace_back(layout(c));
    if (const std::size_t folds_to = std::max(most, narrowest_text); !one.is_numeric && one.column > folds_to) {
      one.column = folds_to;
      for (const auto& row : rows_)  // a word stays whole and widens the column; what has no sign to break at runs over
        for (const std::string& line : folded(row[c].shown(), folds_to))
          if (const std::size_t word = display_width(line); word <= longest_word)
            one.column = std::max(one.column, word);
    }
    for (const std::string& line : folded_heading(headings_[c], std::max(most, one.column)))
      one.column = std::max(one.column, display_width(line));
    width += (c > 0 ? column_gap.size() : 0) + one.column;
  }
  return {all, width};
}

Table Table::transposed() const {
  std::vector<std::string> headings{headings_[0]};
  for (const auto& row : rows_) headings.push_back(row[0].shown());
  Table table(std::move(headings));
  for (std::size_t c = 1; c < headings_.size(); ++c) {
    std::vector<Cell> cells{headings_[c]};
    for (const auto& row : rows_) cells.push_back(row[c]);
    table.row(std::move(cells));
  }
  return table;
}

Table Table::of_columns(const std::vector<std::size_t>& places) const {
  const auto chosen = [&](const auto& all) {
    std::decay_t<decltype(all)> some;
    for (const std::size_t place : places) some.push_back(all[place]);
    return some;
  };
  Table table(chosen(headings_));
  for (const auto& row : rows_) table.row(chosen(row));
  table.rules_ = rules_;
  return table;
}

bool Table::fits() const { return layouts(narrowest_heading).second <= terminal_columns; }

std::string Table::text() const {
  if (fits() || headings_.size() == 1) return folded_text();
  if (const Table turned = transposed(); turned.fits()) return turned.folded_text();
  std::vector<std::size_t> shown(headings_.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  while (shown.size() > 1 && !of_columns(shown).fits()) {
    const auto next = std::max_element(shown.rbegin(), shown.rend() - 1,
                                       [&](std::size_t one, std::size_t other) { return ranks_[one] < ranks_[other]; });
    shown.erase(std::next(next).base());
  }
  std::vector<std::string> left_out;
  for (std::size_t c = 0; c < headings_.size(); ++c)
    if (std::ranges::count(shown, c) == 0) left_out.push_back(headings_[c]);
  return of_columns(shown).folded_text() +
         folded_lines(fmt::format("Not shown, to fit {} columns: {}. --out table.csv of report and analyze has all.",
                                  terminal_columns, fmt::join(left_out, ", ")));
}

std::string Table::folded_text() const {
  std::size_t most = terminal_columns;  // nothing is folded more than necessary
  while (most > narrowest_heading && layouts(most).second > terminal_columns) --most;
  const std::vector<Layout> columns = layouts(most).first;
  std::string result, rule;
  for (std::size_t width = layouts(most).second; width > 0; --width) rule += "─";
  const auto append = [&](const std::vector<std::vector<std::string>>& cells) {
    std::size_t height = 1;
    for (const auto& lines : cells) height = std::max(height, lines.size());
    for (std::size_t l = 0; l < height; ++l) {
      std::string text;
      for (std::size_t c = 0; c < cells.size(); ++c)
        text += (c > 0 ? column_gap : "") + on_the_left(l < cells[c].size() ? cells[c][l] : "", columns[c].column);
      text.erase(text.find_last_not_of(' ') + 1);
      result += text + "\n";
    }
  };
  std::vector<std::vector<std::string>> cells;
  for (std::size_t c = 0; c < headings_.size(); ++c)
    for (std::string& line : cells.emplace_back(folded_heading(headings_[c], columns[c].column)))
      if (columns[c].is_numeric) line = on_the_right(line, columns[c].column);
  append(cells);
  result += rule + "\n";
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (has_rule_before(r)) result += rule + "\n";
    for (std::size_t c = 0; c < headings_.size(); ++c) cells[c] = columns[c].lines(rows_[r][c]);
    append(cells);
  }
  return result;
}

std::string Table::markdown() const {
  std::vector<std::string> lines(rows_.size() + 2, "|");  // headings, a line of dashes, rows
  for (std::size_t c = 0; c < headings_.size(); ++c) {
    std::vector<std::string> cells{escape_markdown(headings_[c]), ""};
    for (const auto& row : rows_) cells.push_back(escape_markdown(row[c].shown()));
    std::size_t width = 3;
    for (const std::string& cell : cells) width = std::max(width, display_width(cell));
    cells[1] = is_numeric(c) ? std::string(width - 1, '-') + ":" : std::string(width, '-');
    for (std::size_t l = 0; l < lines.size(); ++l)
      lines[l] += " " + (is_numeric(c) ? on_the_right(cells[l], width) : on_the_left(cells[l], width)) + " |";
  }
  std::string result;
  for (const std::string& line : lines) result += line + "\n";
  return result;
}

std::string Table::latex() const {
  const auto line = [](const std::vector<std::string>& cells) {
    return fmt::format("{} \\\\\n", fmt::join(cells, " & "));
  };
  std::string result = "\\begin{tabular}{";
  std::vector<std::string> headings;
  for (std::size_t c = 0; c < headings_.size(); ++c) {
    result += is_numeric(c) ? "r" : "l";
    headings.push_back(escape_latex(headings_[c]));
  }
  result += "}\n\\toprule\n" + line(headings) + "\\midrule\n";
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (has_rule_before(r)) result += "\\midrule\n";
    std::vector<std::string> cells;
    for (const Cell& cell : rows_[r]) cells.push_back(escape_latex(cell.shown()));
    result += line(cells);
  }
  return result + "\\bottomrule\n\\end{tabular}\n";
}

Json Table::json() const {
  Json rows = Json::array();
  for (const auto& row : rows_) {
    Json& object = rows.emplace_back(Json::object());
    for (std::size_t c = 0; c < headings_.size(); ++c) {
      object[headings_[c]] = row[c].exact_;
      if (has_deviations(c)) object[headings_[c] + " deviation"] = row[c].exact_deviation_;
    }
  }
  return rows;
}

namespace {

/// The fields with commas between them, RFC 4180: quoted if they contain a comma, a quote or a line break.
std::string csv_row(const std::vector<std::string>& fields) {
  std::string row;
  for (const std::string& field : fields) {
    const bool is_quoted = field.find_first_of(",\"\n\r") != std::string::npos;
    row += (&field == &fields.front() ? "" : ",") + std::string(is_quoted ? "\"" : "");
    for (char c : field) row.append(c == '"' ? 2 : 1, c);
    if (is_quoted) row += '"';
  }
  return row + "\n";
}

}  // namespace

std::string csv_of(const std::vector<Json>& rows) {
  Json columns = Json::object();  // in the order in which they appear
  for (const Json& row : rows) columns.update(row);
  std::vector<std::string> headings;
  for (const auto& [heading, value] : columns.items()) headings.push_back(heading);
  std::string text = csv_row(headings);
  for (const Json& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& heading : headings) {
      const Json value = row.value(heading, Json());
      cells.push_back(value.is_string() ? value.get<std::string>() : value.is_null() ? "" : text_of(value));
    }
    text += csv_row(cells);
  }
  return text;
}

std::string Table::csv() const {
  const Json rows = json();
  return csv_of({rows.begin(), rows.end()});
}

std::string Table::html() const {
  const auto element = [&](const char* tag, std::size_t column, const std::string& content) {
    return fmt::format("<{0}{1}>{2}</{0}>", tag, is_numeric(column) ? " class=\"number\"" : "", content);
  };
  std::string result = "<table>\n<thead><tr>";
  for (std::size_t c = 0; c < headings_.size(); ++c) result += element("th", c, escape_html(headings_[c]));
  result += "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    result += has_rule_before(r) ? "<tr class=\"rule\">" : "<tr>";
    for (std::size_t c = 0; c < headings_.size(); ++c) result += element("td", c, escape_html(rows_[r][c].shown()));
    result += "</tr>\n";
  }
  return result + "</tbody>\n</table>\n";
}

}  // namespace fovea
