#include "experiments/support/program/run_log.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "experiments/support/program/tensorboard.h"
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

std::string contents_of_file(const std::filesystem::path& path) {
  require(!std::filesystem::is_directory(path), "{}: is a directory, expected a file", path.string());
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be read: {}", path.string(), reason());
  return {std::istreambuf_iterator<char>(file), {}};
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
  // The points of an earlier process have the same sizes, and the times at which they were made.
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
  for (const Json& line : log) {
    const Json* value = &line;
    for (std::string_view part : {key.substr(0, dot), dot == key.npos ? std::string_view() : key.substr(dot + 1)}) {
      if (part.empty()) continue;
      const auto found = value->find(std::string(part));
      value = found == value->end() ? nullptr : &*found;
      if (!value) break;
    }
    if (value && value->is_number()) points.emplace_back(line.at("update"), *value);
  }
  return points;
}

}  // namespace fovea
