#include "experiments/support/program/json_file.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "experiments/support/program/files.h"
#include "tensor/error.h"
#include "tensor/format/file_kind.h"
#include "tensor/support/atomic_file.h"
#include "tensor/support/in_quotes.h"

namespace fovea {
namespace {

/// The library's message without its error number.
std::string reason_of(const Json::exception& error) {
  std::string reason = error.what();
  if (auto end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
  return reason;
}

/// JSON text whose syntax is right, and that is refused nevertheless.
struct RefusedJson : Json::exception {
  explicit RefusedJson(const std::string& reason) : Json::exception(0, reason.c_str()) {}
};

/// Whether the value has more levels than this. The library's functions of values call themselves for each level.
template <class AnyJson>
bool is_deeper_than(int levels, const AnyJson& value) {
  const auto inner_is_deeper = [levels](const AnyJson& inner) { return is_deeper_than(levels - 1, inner); };
  return value.is_structured() && (levels == 0 || std::ranges::any_of(value, inner_is_deeper));
}

template <class AnyJson, class Text>
AnyJson parsed(Text&& text) {
  constexpr int most_levels = 100;
  AnyJson value = parse_unique_keys<AnyJson>(std::forward<Text>(text), [](const std::string& key) {
    throw RefusedJson("the key " + in_quotes(key) + " occurs twice in one object");
  });
  if (is_deeper_than(most_levels, value))
    throw RefusedJson(fmt::format("lists and objects lie in each other more than {} deep", most_levels));
  return value;
}

template <class AnyJson>
AnyJson loaded(const std::filesystem::path& path) {
  require(!std::filesystem::is_directory(path), "{}: is a directory, expected a JSON file", path.string());
  require_no_pipe(path);
  errno = 0;
  std::ifstream file(path);
  require(file.is_open(), "{}: cannot be read: {}", path.string(), std::generic_category().message(errno));
  try {
    return parsed<AnyJson>(file);
  } catch (const RefusedJson& refused) {
    fail("{}: {}", path.string(), refused.what());
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

}  // namespace

std::string text_of(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json parse_json(std::string_view text) { return parsed<Json>(text); }

Json load_json(const std::filesystem::path& path) { return loaded<Json>(path); }
nlohmann::json load_large_json(const std::filesystem::path& path) { return loaded<nlohmann::json>(path); }

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

void require_same_configuration(const std::filesystem::path& where, const Json& stored, const Json& present,
                                const std::vector<std::string>& may_differ) {
  const auto text_at = [](const Json& options, const std::string& key) {
    return options.contains(key) ? text_of(options[key]) : "nothing";
  };
  std::vector<std::string> changes;
  const auto compare = [&](const std::string& key) {
    const bool is_same = stored.contains(key) && present.contains(key) && stored[key] == present[key];
    if (!is_same && std::ranges::count(may_differ, key) == 0)
      changes.push_back(fmt::format("{} was {} and is {}", key, text_at(stored, key), text_at(present, key)));
  };
  for (const auto& [key, value] : stored.items()) compare(key);
  // An option that the stored configuration lacks did not exist when its run was made.
  const auto is_off = [](const Json& value) {
    return value.is_null() || value == false || value == 0 || value == "" || value == Json::array();
  };
  for (const auto& [key, value] : present.items())
    if (!stored.contains(key) && !is_off(value)) compare(key);
  require(changes.empty(), "{}: another configuration: {}", where.string(), fmt::join(changes, "; "));
}

}  // namespace fovea
