#include "experiments/support/program/tensorboard.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "tensor/error.h"

namespace fovea {
namespace {

constexpr std::size_t length_bytes = 8, checksum_bytes = 4, frame_bytes = length_bytes + 2 * checksum_bytes;

// ---- Protobuf: a field is its key, 8 · number + kind, and its value.

enum Kind : std::uint64_t { varint = 0, eight_bytes = 1, counted_bytes = 2, four_bytes = 5 };

/// The bytes of a number of fixed width; machines that fovea runs on are little-endian, as the file is.
template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// A varint: 7 bits in each byte, the lowest first; the highest bit of a byte is set if more follow.
std::string as_varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string field(std::uint64_t number, Kind kind, std::string_view value) {
  std::string bytes = as_varint(number << 3 | kind);
  if (kind == counted_bytes) bytes += as_varint(value.size());
  return bytes.append(value);
}

/// Removes a varint from the beginning of `bytes`; nothing if they end before.
std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 10; ++i) {
    value |= std::uint64_t(static_cast<unsigned char>(bytes[i]) & 0x7f) << (7 * i);
    if (static_cast<unsigned char>(bytes[i]) >= 0x80) continue;
    bytes.remove_prefix(i + 1);
    return value;
  }
  return {};
}

/// The step of an event; 0 if it has none.
std::int64_t step_of(std::string_view event) {
  while (!event.empty()) {
    const auto key = take_varint(event);
    if (!key) return 0;
    std::uint64_t skipped = (*key & 7) == eight_bytes ? 8 : (*key & 7) == four_bytes ? 4 : 0;
    if ((*key & 7) == varint || (*key & 7) == counted_bytes) {
      const auto value = take_varint(event);
      if (!value) return 0;
      if (*key == (2 << 3 | varint)) return std::int64_t(*value);
      if ((*key & 7) == counted_bytes) skipped = *value;
    }
    event.remove_prefix(std::min<std::uint64_t>(skipped, event.size()));
  }
  return 0;
}

// ---- Records

/// TFRecord stores checksums this way, so that a checksum of bytes that hold checksums is not a special number.
std::uint32_t masked_checksum(std::string_view bytes) {
  const std::uint32_t checksum = crc32c(bytes);
  return (checksum >> 15 | checksum << 17) + 0xa282ead8;
}

std::string record(std::string_view event) {
  const std::string length = raw(std::uint64_t(event.size()));
  return length + raw(masked_checksum(length)) + std::string(event) + raw(masked_checksum(event));
}

/// The event of the record that the bytes begin with; nothing if the record is not whole.
std::optional<std::string_view> first_event(std::string_view bytes) {
  if (bytes.size() < frame_bytes) return {};
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), length_bytes);
  if (length > bytes.size() - frame_bytes) return {};
  const std::string_view event = bytes.substr(length_bytes + checksum_bytes, length);
  const bool is_whole = bytes.substr(0, frame_bytes + length) == record(event);
  return is_whole ? std::optional(event) : std::nullopt;
}

/// The bytes of the records up to the last one of `last_step`.
std::size_t bytes_to_keep(std::string_view bytes, std::int64_t last_step) {
  std::size_t kept = 0;
  while (const auto event = first_event(bytes.substr(kept))) {
    if (step_of(*event) > last_step) break;
    kept += frame_bytes + event->size();
  }
  return kept;
}

std::string now() {
  const std::chrono::duration<double> seconds = std::chrono::system_clock::now().time_since_epoch();
  return field(1, eight_bytes, raw(seconds.count()));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  constexpr auto table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      entries[byte] = byte;
      for (int bit = 0; bit < 8; ++bit) entries[byte] = entries[byte] >> 1 ^ (entries[byte] & 1 ? 0x82f63b78 : 0);
    }
    return entries;
  }();
  std::uint32_t checksum = 0xffffffff;
  for (char byte : bytes) checksum = checksum >> 8 ^ table[(checksum ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~checksum;
}

TensorBoardFile::TensorBoardFile(std::filesystem::path path) {
  file_ = GrowingFile(std::move(path), 0);
  append(field(3, counted_bytes, "brain.Event:2"));
}

TensorBoardFile TensorBoardFile::resume(std::filesystem::path path, std::int64_t last_step) {
  const std::string bytes = std::filesystem::exists(path) ? contents_of_file(path) : "";
  constexpr std::size_t first_record = 40;  // a shorter file may be one whose beginning was being written
  require(bytes.size() < first_record || first_event(bytes), "{}: is not a file of TensorBoard's", path.string());
  const std::size_t kept = bytes_to_keep(bytes, last_step);
  if (kept == 0) return TensorBoardFile(std::move(path));
  TensorBoardFile file;
  file.file_ = GrowingFile(std::move(path), kept);
  file.last_step_ = last_step;
  return file;
}

void TensorBoardFile::scalar(std::string_view tag, std::int64_t step, double value) {
  require(step >= last_step_, "{}: step {} comes after step {}", file_.path().string(), step, last_step_);
  last_step_ = step;
  const std::string point = field(1, counted_bytes, tag) + field(2, four_bytes, raw(static_cast<float>(value)));
  append(field(2, varint, as_varint(std::uint64_t(step))) + field(5, counted_bytes, field(1, counted_bytes, point)));
}

void TensorBoardFile::append(std::string_view event) { file_.append(record(now() + std::string(event))); }

}  // namespace fovea
