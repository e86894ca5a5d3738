/// Reading the small languages of options: specifications of attention, formulas, schedules.
#pragma once
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace fovea {

/// The number that the whole text spells ("-3", "+3", "2.5", "1e5", for floating point also "inf" and "nan"), the same
/// in every locale. Nothing for other text, white space around it included, and for numbers that T cannot hold.
template <class T>
std::optional<T> number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);  // from_chars() knows no '+'
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// Throws the Error of a text with a fault at `column`, which counts bytes from 1:
/// "'gausian': no method 'gausian' (column 1); did you mean 'gaussian'?"
[[noreturn]] void fail_at(std::string_view text, std::size_t column, const std::string& what,
                          const std::string& advice);

/// Reads a text from its beginning to its end; white space between signs and words means nothing. It keeps a reference
/// to the text.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  std::string_view text() const { return text_; }
  /// What is left, from the next character that is no white space on.
  std::string_view rest();
  bool at_end() { return rest().empty(); }
  /// The place of what comes next, counted from 1.
  std::size_t column();

  bool is_next(std::string_view sign) { return rest().starts_with(sign); }
  /// Whether the sign comes next; reads it if so.
  bool take(std::string_view sign);
  /// The letters, digits, '_' and characters of `others` that come next, perhaps none.
  std::string_view word(std::string_view others = "");
  /// Whether this word comes next; reads it if so.
  bool take_word(std::string_view wanted);
  /// Reads the number that comes next, perhaps with a '+'. Nothing if there is none that T can hold.
  template <class T>
  std::optional<T> number() {
    T value{};
    std::string_view from = rest();
    if (from.starts_with('+') && !from.starts_with("+-")) from.remove_prefix(1);
    const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), value);
    if (error != std::errc()) return std::nullopt;
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  /// Reads the number that comes next. Throws Error where there is none, and for one that is too large or too small.
  double required_number();

  /// Throws the Error of something else than `wanted`, or nothing more, here:
  /// "'gaussian)': unexpected ')' (column 9); expected '+' or the end"
  [[noreturn]] void expected(const std::string& wanted);

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace fovea
