#include "experiments/support/program/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "tensor/error.h"
#include "tensor/support/atomic_file.h"
#include "tensor/support/suggestion.h"

namespace fovea {
namespace {

/// Reads the row at `position` and moves it behind the line break. Nothing if the text ends before one.
std::optional<std::vector<std::string>> next_row(std::string_view text, std::size_t& position) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (std::size_t i = position; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      bool is_doubled = is_quoted && i + 1 < text.size() && text[i + 1] == '"';
      if (is_doubled) fields.back() += text[++i];
      if (!is_doubled) is_quoted = !is_quoted;
    } else if (is_quoted) {
      fields.back() += c;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      position = i + 1;
      return fields;
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return std::nullopt;
}

template <class T>
std::optional<T> number(const std::string& text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole ? std::optional(value) : std::nullopt;
}

/// The bytes of the header and of the rows up to `last_step`.
std::size_t bytes_to_keep(const std::string& name, std::string_view text, const std::string& header,
                          std::int64_t last_step) {
  std::size_t position = 0;
  auto columns = next_row(text, position);
  if (!columns) return 0;
  require(csv_row(*columns) == header, "{}: the columns are {}, expected {}", name,
          csv_row(*columns).substr(0, csv_row(*columns).size() - 1), header.substr(0, header.size() - 1));
  for (std::size_t line = 2, end = position;; ++line, position = end) {
    auto row = next_row(text, end);
    if (!row) return position;
    auto step = number<std::int64_t>(row->front());
    require(step.has_value(), "{}:{}: '{}' is not a step", name, line, row->front());
    if (*step > last_step) return position;
  }
}

}  // namespace

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string csv_row(const std::vector<std::string>& fields) {
  std::string row;
  for (std::size_t i = 0; i < fields.size(); ++i) row += (i ? "," : "") + csv_field(fields[i]);
  return row + "\n";
}

MetricsFile::MetricsFile(std::filesystem::path path, std::vector<std::string> columns) {
  write_file_atomically(path, csv_row(columns));
  *this = resume(std::move(path), std::move(columns), INT64_MIN);
}

MetricsFile MetricsFile::resume(std::filesystem::path path, std::vector<std::string> columns, std::int64_t last_step) {
  std::string header = csv_row(columns);
  std::string text = std::filesystem::exists(path) ? contents_of_file(path) : "";
  std::size_t kept = bytes_to_keep(path.string(), text, header, last_step);
  MetricsFile file;
  file.file_ = GrowingFile(std::move(path), kept);
  file.columns_ = std::move(columns);
  file.last_step_ = last_step;
  if (kept == 0) file.file_.append(header);
  return file;
}

void MetricsFile::row(std::int64_t step, const std::vector<CsvValue>& values) {
  require(values.size() < columns_.size(), "{}: a row has {} values, there are {} columns after the step",
          file_.path().string(), values.size(), columns_.size() - 1);
  require(step >= last_step_, "{}: step {} comes after step {}", file_.path().string(), step, last_step_);
  last_step_ = step;
  std::vector<std::string> fields{std::to_string(step)};
  for (const CsvValue& value : values) fields.push_back(value.text);
  fields.resize(columns_.size());
  file_.append(csv_row(fields));
}

std::vector<double> Metrics::numbers(const std::string& column) const {
  auto at = std::find(columns.begin(), columns.end(), column);
  require(at != columns.end(), "metrics: there is no column '{}'{}", column, did_you_mean(column, columns));
  auto index = std::size_t(at - columns.begin());
  std::vector<double> result;
  for (const auto& row : rows) {
    const std::string& field = row[index];
    auto value = field.empty() ? std::numeric_limits<double>::quiet_NaN() : number<double>(field);
    require(value.has_value(), "metrics: '{}' in column '{}' is not a number", field, column);
    result.push_back(*value);
  }
  return result;
}

std::pair<std::vector<double>, std::vector<double>> Metrics::curve(const std::string& x, const std::string& y) const {
  auto all_x = numbers(x), all_y = numbers(y);
  std::pair<std::vector<double>, std::vector<double>> points;
  for (std::size_t i = 0; i < all_x.size(); ++i) {
    if (std::isnan(all_x[i]) || std::isnan(all_y[i])) continue;
    points.first.push_back(all_x[i]);
    points.second.push_back(all_y[i]);
  }
  return points;
}

Metrics read_metrics(const std::filesystem::path& path) {
  std::string text = contents_of_file(path);
  std::size_t position = 0;
  auto columns = next_row(text, position);
  require(columns.has_value(), "{}: has no header", path.string());
  Metrics metrics{*columns, {}};
  for (std::size_t line = 2;; ++line) {
    auto row = next_row(text, position);
    if (!row) return metrics;
    require(row->size() == metrics.columns.size(), "{}:{}: {} fields, expected {}", path.string(), line, row->size(),
            metrics.columns.size());
    metrics.rows.push_back(std::move(*row));
  }
}

}  // namespace fovea
