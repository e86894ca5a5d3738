/// The log of a training: a growing file of JSON lines that survives a kill, and the same curves for TensorBoard.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/support/program/json_file.h"

namespace fovea {

/// Appends to a file. When append() returns, the operating system has the bytes, so that a killed run loses none;
/// sync() makes them survive a power cut as well. All functions throw Error, with the file's name, if they fail.
class GrowingFile {
 public:
  GrowingFile() = default;  ///< no file yet: can only be assigned to
  /// Opens the file and removes all but its first `kept` bytes. Creates a missing file.
  GrowingFile(std::filesystem::path path, std::size_t kept);

  void append(std::string_view bytes);
  /// Waits until everything is on the disk: before a checkpoint is written, for example.
  void sync();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

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

// ---- Curves for TensorBoard: `tensorboard --logdir runs` shows every run whose directory has such a file.
///
/// The file is a sequence of records (TFRecord), each an Event in protobuf's encoding:
///
///   8 bytes   length of the event, little-endian
///   4 bytes   masked CRC-32C of these 8 bytes
///   ...       Event {double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5}
///             Summary {repeated Value value = 1}, Value {string tag = 1; float simple_value = 2}
///   4 bytes   masked CRC-32C of the event
///
/// https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/event.proto

/// Name of the file in a run's directory. TensorBoard reads files whose names have "tfevents" in them.
inline constexpr const char* tensorboard_file = "events.out.tfevents.fovea";

/// The record that such a file begins with.
std::string tensorboard_start();

/// The numbers of a line of a run's log as points at its "update", with the current time: "loss" is a point of the
/// curve "training/loss", "BLEU" in "dev" one of "development/BLEU". Values are stored as f32.
std::string tensorboard_points(const Json& line);

}  // namespace fovea
