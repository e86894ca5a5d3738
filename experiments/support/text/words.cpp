#include "experiments/support/text/words.h"

#include <fmt/core.h>

namespace fovea {

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t place = at;
    if (!is_space(next_character(text, at))) continue;
    if (place > begin) words.push_back(text.substr(begin, place - begin));
    begin = at;
  }
  if (begin < text.size()) words.push_back(text.substr(begin));
  return words;
}

std::string join_words(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

std::vector<std::string_view> split_columns(std::string_view line, char separator) {
  std::vector<std::string_view> columns;
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find(separator, begin);
    columns.push_back(line.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return columns;
    begin = end + 1;
  }
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string listed(std::span<const std::string> items, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? last : std::string_view(", ");
    text += items[i];
  }
  return text;
}

std::string first_few(std::span<const std::string> items) {
  constexpr std::size_t shown = 8;
  if (items.size() <= shown) return listed(items, ", ");
  return fmt::format("{} and {} more", listed(items.first(shown), ", "), items.size() - shown);
}

}  // namespace fovea
