#include "experiments/support/program/tensorboard.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string_view>

#include <boost/crc.hpp>

namespace fovea {
namespace {

// ---- Protobuf: a field is its key, 8 · number + kind, and its value.

enum Kind : std::uint64_t { varint = 0, eight_bytes = 1, counted_bytes = 2, four_bytes = 5 };

/// The bytes of a number of fixed width; machines that fovea runs on are little-endian, as the file is.
template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A varint: 7 bits in each byte, the lowest first; the highest bit of a byte is set if more follow.
std::string as_varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += char(value | 0x80);
  return bytes + char(value);
}

std::string field(std::uint64_t number, Kind kind, std::string_view value) {
  std::string bytes = as_varint(number << 3 | kind);
  if (kind == counted_bytes) bytes += as_varint(value.size());
  return bytes.append(value);
}

/// TFRecord stores checksums this way, so that a checksum of bytes that hold checksums is not a special number.
std::string masked_checksum(std::string_view bytes) {
  boost::crc_optimal<32, 0x1edc6f41, 0xffffffff, 0xffffffff, true, true> checksum;  // CRC-32C
  checksum.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = checksum.checksum();
  return raw((sum >> 15 | sum << 17) + 0xa282ead8);
}

std::string record(const std::string& fields) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const std::string event = field(1, eight_bytes, raw(now.count())) + fields;
  const std::string length = raw(std::uint64_t(event.size()));
  return length + masked_checksum(length) + event + masked_checksum(event);
}

std::string points(const Json& values, const std::string& group, std::int64_t step) {
  std::string records;
  for (const auto& [name, value] : values.items()) {
    if (name == "update" || name == "epoch" || !(value.is_number() || value.is_null())) continue;
    const float number = value.is_null() ? NAN : value.get<float>();  // JSON has no NaN
    const std::string point = field(1, counted_bytes, group + name) + field(2, four_bytes, raw(number));
    records += record(field(2, varint, as_varint(std::uint64_t(step))) +
                      field(5, counted_bytes, field(1, counted_bytes, point)));
  }
  return records;
}

}  // namespace

std::string tensorboard_start() { return record(field(3, counted_bytes, "brain.Event:2")); }

std::string tensorboard_points(const Json& line) {
  const std::int64_t step = line.at("update");
  return points(line, "training/", step) + points(line.value("dev", Json::object()), "development/", step);
}

}  // namespace fovea
