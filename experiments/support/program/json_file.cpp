#include "experiments/support/program/json_file.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "tensor/error.h"
#include "tensor/format/file_kind.h"
#include "tensor/support/atomic_file.h"

namespace fovea {
namespace {

void collect(const std::string& key, const Json& before, const Json& after, std::vector<Difference>& found) {
  if (!before.is_object() || !after.is_object()) {
    if (before != after) found.push_back({key, text_of(before), text_of(after)});
    return;
  }
  auto inside = [&](const std::string& name) { return key.empty() ? name : key + "." + name; };
  for (const auto& [name, value] : before.items()) {
    if (after.contains(name)) {
      collect(inside(name), value, after[name], found);
    } else {
      found.push_back({inside(name), text_of(value), "nothing"});
    }
  }
  for (const auto& [name, value] : after.items()) {
    if (!before.contains(name)) found.push_back({inside(name), "nothing", text_of(value)});
  }
}

/// The library's message without its error number.
std::string reason_of(const Json::exception& error) {
  std::string reason = error.what();
  if (auto end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
  return reason;
}

}  // namespace

std::string text_of(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json parse_json(std::string_view text) { return Json::parse(text); }

Json load_json(const std::filesystem::path& path) {
  require(!std::filesystem::is_directory(path), "{}: is a directory, expected a JSON file", path.string());
  errno = 0;
  std::ifstream file(path);
  require(file.is_open(), "{}: cannot be read: {}", path.string(), std::generic_category().message(errno));
  try {
    return Json::parse(file);
  } catch (const Json::exception& error) {
    // "parse error at line 33, column 6: syntax error while ..."
    std::string first(recognised_bytes, '\0');
    file.clear();
    file.seekg(0).read(first.data(), recognised_bytes);
    first.resize(std::size_t(file.gcount()));
    if (const FileKind kind = recognised_file(first); !kind.name.empty() && !kind.name.starts_with("JSON"))
      fail("{}: is {}, expected JSON text, or the directory of a run", path.string(), kind.name);
    const std::string reason = reason_of(error);
    const std::size_t at = reason.find(" at line "), end = reason.find(':');
    fail("{}: not JSON, or cut short{}", path.string(),
         at < end ? "," + reason.substr(at, end - at) : " (" + reason + ")");
  }
}

void reading_json(const std::string& origin, const std::function<void()>& read, const char* what) {
  try {
    read();
  } catch (const Json::exception& error) {
    fail("{}: not {}: {}", origin, what, reason_of(error));
  }
}

void save_json(const std::filesystem::path& path, const Json& value) {
  // invalid UTF-8, which a path may contain, is replaced rather than refused
  write_file_atomically(path, text_of(value, 2) + "\n");
}

std::vector<Difference> differences(const Json& before, const Json& after) {
  std::vector<Difference> found;
  collect("", before, after, found);
  return found;
}

void require_same_configuration(const std::filesystem::path& where, const Json& stored, const Json& present,
                                const std::vector<std::string>& may_differ) {
  std::string list;
  for (const Difference& d : differences(stored, present)) {
    if (std::ranges::find(may_differ, d.key) != may_differ.end()) continue;
    list += fmt::format("{}{} was {} and is {}", list.empty() ? "" : "; ", d.key, d.before, d.after);
  }
  require(list.empty(), "{}: another configuration: {}", where.string(), list);
}

}  // namespace fovea
