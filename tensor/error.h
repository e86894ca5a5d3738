/// Errors for bad input, with a message of one line: what is wrong, where, what was found, and what is expected.
#pragma once
#include <algorithm>
#include <concepts>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace fovea {

/// Types whose member describe() gives the text that error messages show for them, such as tensors ("f32 [8, 20, 64]")
/// and shapes ("[8, 20, 64]"). They can be arguments of fmt::format.
template <class T>
concept Describable = requires(const T& x) {
  { x.describe() } -> std::same_as<std::string>;
};

}  // namespace fovea

template <fovea::Describable T>
struct fmt::formatter<T, char> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }  // only "{}", without options
  auto format(const T& x, fmt::format_context& context) const {
    std::string words = x.describe();
    return std::copy(words.begin(), words.end(), context.out());
  }
};

namespace fovea {

/// An error that the caller can correct, such as a wrong shape, flag or file. Programs print its message as one line
/// and exit with status 2.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// Throws Error with a formatted message.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error with a formatted message unless `claim` is true. The arguments are evaluated even if it is: pass a
/// tensor or a shape itself rather than its describe(), so that its text is made only for an error.
template <class... Args>
void require(bool claim, fmt::format_string<Args...> format, Args&&... args) {
  if (!claim) [[unlikely]]
    throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace fovea
