#include "experiments/support/program/run_log.h"

#include <cerrno>
#include <chrono>
#include <cmath>
#include <system_error>
#include <utility>

#include <boost/crc.hpp>
#include <unistd.h>

#include "experiments/support/program/files.h"
#include "tensor/error.h"

namespace fovea {

namespace {

std::string reason() { return std::generic_category().message(errno); }

}  // namespace

GrowingFile::GrowingFile(std::filesystem::path path, std::size_t kept)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), "abe")) {
  require(file_ && ::ftruncate(::fileno(file_.get()), off_t(kept)) == 0, "{}: cannot be written: {}", path_.string(),
          reason());
  std::setbuf(file_.get(), nullptr);
}

void GrowingFile::append(std::string_view bytes) {
  const bool is_written = std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  require(is_written, "{}: cannot be written: {}", path_.string(), reason());
}

void GrowingFile::sync() {
  const bool is_synced = ::fsync(::fileno(file_.get())) == 0 || errno == EINVAL;
  require(is_synced, "{}: cannot be written: {}", path_.string(), reason());
}

namespace {

/// Calls body(line, the bytes up to its end) for every whole line.
template <class Body>
void for_log_lines(const std::filesystem::path& path, const Body& body) {
  const std::string text = contents_of_file(path);
  std::int64_t number = 0;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    ++number;
    reading_json(fmt::format("{}:{}", path.string(), number),
                 [&] { body(parse_json(text.substr(begin, end - begin)), end + 1); });
  }
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& path, std::int64_t last) {
  std::size_t kept = 0;
  std::string points = tensorboard_start();
  if (std::filesystem::exists(path))
    for_log_lines(path, [&](const Json& line, std::size_t end) {
      if (line.at("update").get<std::int64_t>() > last) return;
      kept = end;
      points += tensorboard_points(line);
    });
  file_ = GrowingFile(path, kept);
  // The curves that an earlier process wrote are kept if they are complete: their points have the same sizes in bytes
  // as `points`, and the times at which they were logged.
  const std::filesystem::path curves = path.parent_path() / tensorboard_file;
  const bool are_there = std::filesystem::exists(curves) && std::filesystem::file_size(curves) >= points.size();
  curves_ = GrowingFile(curves, are_there ? points.size() : 0);
  if (!are_there) curves_.append(points);
}

void RunLog::write(const Json& line) {
  file_.append(text_of(line) + "\n");
  curves_.append(tensorboard_points(line));
}

std::vector<Json> read_log(const std::filesystem::path& path) {
  std::vector<Json> lines;
  for_log_lines(path, [&](Json line, std::size_t) { lines.push_back(std::move(line)); });
  return lines;
}

std::vector<std::pair<double, double>> curve(const std::vector<Json>& log, std::string_view key) {
  std::vector<std::pair<double, double>> points;
  const std::size_t dot = key.find('.');
  const std::string first(key.substr(0, dot)), second(dot == key.npos ? "" : key.substr(dot + 1));
  for (const Json& line : log) {
    const Json* value = line.contains(first) ? &line.at(first) : nullptr;
    if (value && !second.empty()) value = value->contains(second) ? &value->at(second) : nullptr;
    if (value && value->is_number()) points.emplace_back(line.at("update"), *value);
  }
  return points;
}

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
