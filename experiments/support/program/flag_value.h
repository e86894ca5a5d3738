/// A flag's value from text, and as JSON. The errors describe the value only: the caller puts the flag, or the
/// file and the key, before them.
#pragma once
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "experiments/support/program/json_file.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/in_quotes.h"

namespace fovea::flag_value {

template <class T>
struct ElementOf {
  using type = T;
  static constexpr bool is_list = false, is_optional = false;
};
template <class T>
struct ElementOf<std::vector<T>> : ElementOf<T> {
  static constexpr bool is_list = true;
};
template <class T>
struct ElementOf<std::optional<T>> : ElementOf<T> {
  static constexpr bool is_optional = true;
};

template <class T>
constexpr bool is_text = std::is_same_v<T, std::string> || std::is_same_v<T, std::filesystem::path>;

template <class T>
const char* expectation() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (is_text<T>) return "a text";
  return std::is_floating_point_v<T> ? "a number" : "a whole number";
}

template <class T>
const char* placeholder() {
  if constexpr (std::is_same_v<T, std::filesystem::path>) return "PATH";
  if constexpr (std::is_same_v<T, std::string>) return "TEXT";
  return std::is_floating_point_v<T> ? "X" : "N";
}

/// The value that the text spells. 1e5 and 5.0 are whole numbers too.
template <class T>
T from_text(const std::string& text) {
  std::optional<T> value;
  if constexpr (std::is_same_v<T, bool>) {
    if (text == "true" || text == "false") value = text == "true";
  } else if constexpr (is_text<T>) {
    value = T(text);
  } else {
    value = number<T>(text);
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (value && std::isnan(*value)) value.reset();
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const auto real = number<double>(text);
    const bool is_whole = is_whole_number(text) || (real && std::isfinite(*real) && *real == std::floor(*real));
    if (!value && is_whole) {
      const double bound = std::ldexp(1.0, std::numeric_limits<T>::digits);  // doubles below it convert exactly
      const bool is_negative = text.starts_with('-');
      const double least = std::is_signed_v<T> ? -bound : 0;
      require(!is_negative || (real && *real >= least), "{} is too small, the least is {}", without_middle(text, 80),
              std::numeric_limits<T>::min());
      require(is_negative || (real && *real < bound), "{} is too large, the most is {}", without_middle(text, 80),
              std::numeric_limits<T>::max());
      value = T(*real);
    }
  }
  if (!value) fail("{} is not {}", in_quotes(text), expectation<T>());
  return *value;
}

template <class T>
Json to_json(const T& value) {
  if constexpr (std::is_same_v<T, std::filesystem::path>) {
    return value.string();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return value > 0 ? "inf" : "-inf";
    return from_text<double>(fmt::format("{}", value));  // 0.1f is 0.1, not 0.10000000149
  } else {
    return value;
  }
}

}  // namespace fovea::flag_value
