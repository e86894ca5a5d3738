#include "experiments/support/program/run_log.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "tensor/error.h"

namespace fovea {

namespace {

std::string whole_file(const std::filesystem::path& path) {
  require(!std::filesystem::is_directory(path), "{}: is a directory, expected a file", path.string());
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be read: {}", path.string(), std::generic_category().message(errno));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Calls body(line, the bytes up to its end) for every whole line.
template <class Body>
void for_lines(const std::filesystem::path& path, const Body& body) {
  const std::string text = whole_file(path);
  std::int64_t number = 0;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    ++number;
    reading_run_file(fmt::format("{}:{}", path.string(), number),
                     [&] { body(Json::parse(text.substr(begin, end - begin)), end + 1); });
  }
}

[[noreturn]] void fail_to_write(const std::filesystem::path& path) {
  fail("{}: cannot be written: {}", path.string(), std::generic_category().message(errno));
}

}  // namespace

RunLog::RunLog(std::filesystem::path path, std::int64_t last) : path_(std::move(path)) {
  std::size_t kept = 0;
  if (std::filesystem::exists(path_))
    for_lines(path_, [&](const Json& line, std::size_t end) {
      if (line.at("update").get<std::int64_t>() <= last) kept = end;
    });
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(kept)) != 0) fail_to_write(path_);
}

RunLog::~RunLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RunLog::write(const Json& line) {
  const std::string text = line.dump() + "\n";
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(path_);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void RunLog::sync() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_to_write(path_);
}

std::vector<Json> read_log(const std::filesystem::path& path) {
  std::vector<Json> lines;
  for_lines(path, [&](Json line, std::size_t) { lines.push_back(std::move(line)); });
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
