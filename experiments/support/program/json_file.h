/// JSON values as text and in files, and the differences between two configurations.
#pragma once
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace fovea {

using Json = nlohmann::ordered_json;  ///< keys keep the order in which they were written

/// Returns the value as text: in one line, or in lines indented by `indent` spaces for each level if it is not
/// negative. Bytes that are not UTF-8 are replaced by U+FFFD.
std::string text_of(const Json& value, int indent = -1);
/// Reads the text of one value. Throws Json::parse_error.
Json parse_json(std::string_view text);

/// Reads the text of one value. Calls refuse(key), which throws, for a key that its object has already; parse() would
/// keep the last value alone.
template <class AnyJson, class Text, class Refuse>
AnyJson parse_unique_keys(Text&& text, const Refuse& refuse) {
  using Event = typename AnyJson::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  return AnyJson::parse(std::forward<Text>(text), [&](int, Event event, AnyJson& parsed) {
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.template get<std::string>()).second)
      refuse(parsed.template get<std::string>());
    return true;
  });
}

/// Reads one JSON value. Throws Error naming the file and, where it is not JSON, line and column, or a key that an
/// object has twice.
Json load_json(const std::filesystem::path& path);
/// The same for objects of very many keys, such as vocabularies: Json compares a key with all other keys of its object.
nlohmann::json load_large_json(const std::filesystem::path& path);

/// Calls read(), which reads the JSON of the file `origin`. Throws Error if a key is missing or has another type: the
/// message says that the file is not `what`.
void reading_json(const std::string& origin, const std::function<void()>& read,
                  const char* what = "a file that a run wrote");

/// Writes the value, indented, atomically (AtomicFile).
void save_json(const std::filesystem::path& path, const Json& value);

/// Throws Error unless the options `stored` and `present` agree in everything but the keys in `may_differ`; the message
/// names `where` and the keys with both values, "nothing" for an absent one. Numbers are compared as numbers (1 = 1.0).
/// An option that only `present` has agrees if it is off (null, false, 0 or empty): older versions had no such option.
/// `runs/a1/config.json: another configuration: layers was 2 and is 3; dropout was 0.1 and is 0.2`
void require_same_configuration(const std::filesystem::path& where, const Json& stored, const Json& present,
                                const std::vector<std::string>& may_differ = {});

}  // namespace fovea
