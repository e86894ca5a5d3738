/// Words of a text: what lies between white space.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/support/text/utf8.h"

namespace fovea {

/// The words of UTF-8 text, in order: views into `text`. White space is what `is_space` says.
std::vector<std::string_view> split_words(std::string_view text);

/// Lets a hash table with std::string keys be searched for a std::string_view.
struct WordHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
};

/// Whether the texts are written without spaces between words, as Chinese and Japanese are: less than 1 space to 50
/// characters. Words and scores of words then mean little. Texts of one word each count as such.
bool has_few_spaces(std::span<const std::string_view> texts);

/// The words with one space between.
std::string join_words(std::span<const std::string_view> words);

/// Appends the word, behind a space unless the text is empty.
void append_word(std::string& text, std::string_view word);

/// The columns of a line: views into `line`, at least one.
std::vector<std::string_view> split_columns(std::string_view line, char separator = '\t');

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

}  // namespace fovea
