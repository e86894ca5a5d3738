/// Is a page well-formed? Enough of a parser for what the reports write.
#pragma once
#include <string>
#include <vector>

namespace fovea {

/// Whether every element is closed in order, every attribute is quoted, and & begins an entity. "" or what is wrong.
inline std::string markup_error(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '&') {
      std::size_t end = text.find_first_not_of("#abcdefghijklmnopqrstuvwxyz0123456789", i + 1);
      if (end == std::string::npos || text[end] != ';' || end == i + 1) return "a bare & at " + text.substr(i, 30);
    }
    if (text[i] != '<') continue;
    if (text.compare(i, 9, "<!DOCTYPE") == 0 || text.compare(i, 5, "<?xml") == 0) continue;
    std::size_t end = i;
    for (bool quoted = false; end < text.size() && (quoted || text[end] != '>'); ++end) {
      if (text[end] == '"') quoted = !quoted;
      if (text[end] == '<' && end > i) return "a < in the tag " + text.substr(i, 60);
    }
    std::string tag = text.substr(i + 1, end - i - 1);
    std::string name = tag.substr(0, tag.find(' '));
    if (name.starts_with('/')) {
      if (open.empty() || open.back() != name.substr(1)) return "unexpected <" + tag + ">";
      open.pop_back();
    } else if (!tag.ends_with('/') && name != "meta") {
      open.push_back(name);
      if (name == "style") i = text.find("</style>", i) - 1, end = i;
    }
    i = end;
  }
  return open.empty() ? "" : "<" + open.back() + "> stays open";
}

/// How often the part is in the text.
inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace fovea
