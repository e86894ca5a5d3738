#include "experiments/support/text/words.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

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

bool has_few_spaces(std::span<const std::string_view> texts) {
  constexpr std::int64_t few = 50;
  std::int64_t spaces = 0, characters = 0;
  for (const std::string_view text : texts) {
    const std::vector<std::string_view> words = split_words(text);
    spaces += std::max<std::int64_t>(std::ssize(words) - 1, 0);
    for (const std::string_view word : words) characters += character_count(word);
  }
  return characters > 0 && spaces * few < characters;
}

std::string join_words(std::span<const std::string_view> words) { return fmt::format("{}", fmt::join(words, " ")); }

void append_word(std::string& text, std::string_view word) {
  if (!text.empty()) text += ' ';
  text += word;
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

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  for (const std::string_view part : split_columns(text, ',')) parts.push_back(trimmed(part));
  return parts;
}

std::string quoted_for_shell(const std::string& word) {
  const bool is_plain = !word.empty() && word.find_first_of(" \t\n\"'\\$`;&|<>()*?[]#~!{}") == std::string::npos;
  if (is_plain) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
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

std::string alternatives(std::span<const std::string> items) { return listed(items, " or "); }

std::string first_few(std::span<const std::string> items) {
  constexpr std::size_t shown = 8;
  if (items.size() <= shown) return listed(items, ", ");
  return fmt::format("{} and {} more", listed(items.first(shown), ", "), items.size() - shown);
}

std::string rounded_text(double value, int decimals) {
  const std::string text =
      std::abs(value) < 1e9 ? fmt::format("{:.{}f}", value, decimals) : fmt::format("{:.3g}", value);
  return text.find_first_not_of("-0.") == text.npos ? fmt::format("{:.{}f}", 0.0, decimals) : text;
}

}  // namespace fovea
