/// The log of a training: a growing file of JSON lines that survives a kill.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "experiments/support/program/growing_file.h"
#include "experiments/support/program/json_file.h"

namespace fovea {

/// A file with one JSON object per line. Each has the key "update", whose values never decrease. A line reaches the
/// operating system before write() returns, so that a killed run loses none; sync() makes the lines survive a power cut
/// as well. Its numbers are also curves of TensorBoard's, in a file beside it, which is made from the log where that is
/// continued.
class RunLog {
 public:
  /// Opens the file, or creates it. Removes every line after update `last`, and a half-written line, so that the file
  /// continues as if the run had never stopped. Throws Error, with file and line, for a line that is not one of a log,
  /// and if the file cannot be written.
  RunLog(const std::filesystem::path& path, std::int64_t last);

  void write(const Json& line);
  /// Returns when all lines are on the disk.
  void sync() { file_.sync(); }

 private:
  GrowingFile file_, curves_;
};

/// The lines of a log. A half-written last line is left out, so that a log can be read while it is written. Throws
/// Error, with file and line, for a line that is not JSON.
std::vector<Json> read_log(const std::filesystem::path& path);

/// The points (update, value) of the lines that have the number `key`. "dev.BLEU" is the key "BLEU" inside of "dev".
std::vector<std::pair<double, double>> curve(const std::vector<Json>& log, std::string_view key);

}  // namespace fovea
