/// Bad input, reported in one line: what, where, what it was, what it should be.
#pragma once
#include <algorithm>
#include <concepts>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace fovea {

/// Types with a describe() for messages, such as tensors ("f32 [8, 20, 64]") and shapes ("[8, 20, 64]").
template <class T>
concept Describable = requires(const T& x) {
  { x.describe() } -> std::same_as<std::string>;
};

}  // namespace fovea

template <fovea::Describable T>
struct fmt::formatter<T, char> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }  // "{}" is all there is
  auto format(const T& x, fmt::format_context& context) const {
    std::string words = x.describe();
    return std::copy(words.begin(), words.end(), context.out());
  }
};

namespace fovea {

/// Something the caller can put right: a shape, a flag, a file. Programs print it as one line and exit with 2.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// Throws Error with a formatted message.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error with a formatted message unless the claim holds. Arguments are evaluated always: hand over a tensor or
/// a shape itself, which is put into words only when the message is.
template <class... Args>
void require(bool claim, fmt::format_string<Args...> format, Args&&... args) {
  if (!claim) [[unlikely]]
    throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace fovea
