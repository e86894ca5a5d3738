/// Curves for TensorBoard: `tensorboard --logdir runs` shows every run whose directory has such a file.
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
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "experiments/support/program/growing_file.h"

namespace fovea {

/// Name of the file in a run's directory. TensorBoard reads files whose names have "tfevents" in them.
inline constexpr const char* tensorboard_file = "events.out.tfevents.fovea";

/// Scalars by step. When scalar() returns, the operating system has the event, so that a killed run loses none. All
/// functions throw Error, with the file's name, if the file cannot be read or written.
class TensorBoardFile {
 public:
  /// A new file; an old one is replaced.
  explicit TensorBoardFile(std::filesystem::path path);

  /// Continues a file. Removes events after `last_step`, and a half-written one, so that the file continues as if the
  /// run had never stopped. Creates a missing file. Throws Error for a file that is not TensorBoard's.
  static TensorBoardFile resume(std::filesystem::path path, std::int64_t last_step);

  /// Appends a point of the curve `tag` ("loss", "development/accuracy"; curves are grouped by what precedes the
  /// slash), with the current time. The value is stored as f32. Steps must not decrease.
  void scalar(std::string_view tag, std::int64_t step, double value);

  /// Waits until all events are on the disk: before a checkpoint is written, for example.
  void sync() { file_.sync(); }

  TensorBoardFile() = default;  ///< no file yet: can only be assigned to

 private:
  void append(std::string_view event);

  GrowingFile file_;
  std::int64_t last_step_ = INT64_MIN;
};

/// CRC-32C (Castagnoli), RFC 3720.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace fovea
