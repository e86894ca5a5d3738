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
#include <string>

#include "experiments/support/program/json_file.h"

namespace fovea {

/// Name of the file in a run's directory. TensorBoard reads files whose names have "tfevents" in them.
inline constexpr const char* tensorboard_file = "events.out.tfevents.fovea";

/// The record that such a file begins with.
std::string tensorboard_start();

/// The numbers of a line of a run's log as points at its "update", with the current time: "loss" is a point of the
/// curve "training/loss", "BLEU" in "dev" one of "development/BLEU". Values are stored as f32.
std::string tensorboard_points(const Json& line);

}  // namespace fovea
