#include "experiments/support/program/csv.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

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

std::string whole_file(const std::filesystem::path& path) {
  require(!std::filesystem::is_directory(path), "{}: is a directory, expected a file", path.string());
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be read: {}", path.string(), std::generic_category().message(errno));
  return {std::istreambuf_iterator<char>(file), {}};
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
  std::string text = std::filesystem::exists(path) ? whole_file(path) : "";
  std::size_t kept = bytes_to_keep(path.string(), text, header, last_step);
  MetricsFile file;
  file.path_ = std::move(path);
  file.columns_ = std::move(columns);
  file.last_step_ = last_step;
  file.descriptor_ = ::open(file.path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  bool is_open = file.descriptor_ >= 0 && ::ftruncate(file.descriptor_, off_t(kept)) == 0;
  require(is_open, "{}: cannot be written: {}", file.path_.string(), std::generic_category().message(errno));
  if (kept == 0) file.append(header);
  return file;
}

MetricsFile::MetricsFile(MetricsFile&& other) noexcept { *this = std::move(other); }

MetricsFile& MetricsFile::operator=(MetricsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(columns_, other.columns_);
  std::swap(last_step_, other.last_step_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

MetricsFile::~MetricsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MetricsFile::row(std::int64_t step, const std::vector<CsvValue>& values) {
  require(values.size() < columns_.size(), "{}: a row has {} values, there are {} columns after the step",
          path_.string(), values.size(), columns_.size() - 1);
  require(step >= last_step_, "{}: step {} comes after step {}", path_.string(), step, last_step_);
  last_step_ = step;
  std::vector<std::string> fields{std::to_string(step)};
  for (const CsvValue& value : values) fields.push_back(value.text);
  fields.resize(columns_.size());
  append(csv_row(fields));
}

void MetricsFile::append(const std::string& text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    require(written >= 0, "{}: cannot be written: {}", path_.string(), std::generic_category().message(errno));
    rest.remove_prefix(std::size_t(written));
  }
}

void MetricsFile::sync() {
  bool is_synced = ::fsync(descriptor_) == 0 || errno == EINVAL;
  require(is_synced, "{}: cannot be written: {}", path_.string(), std::generic_category().message(errno));
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
  std::string text = whole_file(path);
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
