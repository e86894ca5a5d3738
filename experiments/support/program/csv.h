/// Metrics as comma-separated values that grow row by row and survive a kill.
#pragma once
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

namespace fovea {

/// A field as RFC 4180 writes it: quoted if it has a comma, a quote or a line break in it.
std::string csv_field(std::string_view text);

/// Fields with commas between them and a line break at the end.
std::string csv_row(const std::vector<std::string>& fields);

/// A value of a row. Floating-point numbers get as many digits as reading them back needs; nothing is an empty field.
struct CsvValue {
  std::string text;

  CsvValue() = default;
  CsvValue(std::string value) : text(std::move(value)) {}
  CsvValue(const char* value) : text(value) {}
  template <class T>
  requires std::integral<T> || std::floating_point<T> CsvValue(T value) : text(fmt::format("{}", value)) {}
};

/// A table whose first column is the step, which never falls. Each row reaches the operating system before row()
/// returns, so a killed run loses none; sync() makes them survive a power cut as well.
/// Everything throws Error naming the file when it cannot be read or written.
class MetricsFile {
 public:
  /// A new file with its header; an old one is replaced.
  MetricsFile(std::filesystem::path path, std::vector<std::string> columns);

  /// Goes on with a file: every row after `last_step`, and a half-written one, is cut off, so that the file continues
  /// as if the run had never stopped. Throws Error if its columns are others. A missing file begins anew.
  static MetricsFile resume(std::filesystem::path path, std::vector<std::string> columns, std::int64_t last_step);

  MetricsFile(MetricsFile&& other) noexcept;
  MetricsFile& operator=(MetricsFile&& other) noexcept;
  ~MetricsFile();

  /// Appends a row. `values` are those of the columns after the step; empty ones at the end may be left out.
  void row(std::int64_t step, const std::vector<CsvValue>& values);

  /// Waits until all rows are on the disk: before a checkpoint is written, say.
  void sync();

 private:
  MetricsFile() = default;
  void append(const std::string& text);

  std::filesystem::path path_;
  std::vector<std::string> columns_;
  std::int64_t last_step_ = INT64_MIN;
  int descriptor_ = -1;
};

/// What a MetricsFile holds.
struct Metrics {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;

  /// A column as numbers; NaN where a field is empty. Throws Error if there is no such column, or a field is no number.
  std::vector<double> numbers(const std::string& column) const;

  /// The rows in which both columns have a value, as two columns of equal length: the points of a curve.
  std::pair<std::vector<double>, std::vector<double>> curve(const std::string& x, const std::string& y) const;
};

/// Reads a MetricsFile, also while another process writes it: a half-written last row is left out.
Metrics read_metrics(const std::filesystem::path& path);

}  // namespace fovea
