/// Text as numbers.
#pragma once
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

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
