/// Words of a text, which lie between white space, and the numbers that they spell.
#pragma once
#include <charconv>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "experiments/support/text/utf8.h"
#include "tensor/support/text_reader.h"

namespace fovea {

/// The words of UTF-8 text, in order: views into `text`. White space is what `is_space` says.
std::vector<std::string_view> split_words(std::string_view text);

/// Lets a hash table with std::string keys be searched for a std::string_view.
struct WordHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
};
template <class Value>
using WordMap = std::unordered_map<std::string, Value, WordHash, std::equal_to<>>;

/// Whether the texts are written without spaces between words, as Chinese and Japanese are: less than 1 space to 50
/// characters. Words and scores of words then mean little. Texts of one word each count as such.
bool has_few_spaces(std::span<const std::string_view> texts);

/// The words with one space between.
std::string join_words(std::span<const std::string_view> words);

/// Appends the word, behind a space unless the text is empty.
void append_word(std::string& text, std::string_view word);

/// The columns of a line: views into `line`, at least one.
std::vector<std::string_view> split_columns(std::string_view line, char separator = '\t');

/// "bleu, ribes" as its parts between commas, without the white space around them; at least one.
std::vector<std::string> split_list(std::string_view text);

/// A word for a shell's command line: as it is if no character has a meaning there, otherwise in quotes.
std::string quoted_for_shell(const std::string& word);

/// The text without spaces and tabs at its ends.
std::string trimmed(std::string_view text);

/// "1 column", "3 columns", for messages.
std::string counted(std::size_t count, std::string_view noun);

/// "a, b", with `last` before the last one, for messages.
std::string listed(std::span<const std::string> items, std::string_view last);
/// "a, b or c", for messages.
std::string alternatives(std::span<const std::string> items);

/// "a, b, c"; the first eight of a longer list: "a, b, c, d, e, f, g, h and 192 more".
std::string first_few(std::span<const std::string> items);

/// The number with `decimals` decimals, without the sign of a zero; from 1e9 on, where a bad model's perplexity has
/// hundreds of digits, with three digits: "4.66e+12".
std::string rounded_text(double value, int decimals);

// ---- Text as numbers.

/// The number that the text begins with, or nothing.
template <class T>
std::optional<T> leading_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// Whether the text is a whole number in decimal digits, of any size: "-3", "99999999999999999999".
inline bool is_whole_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace fovea
