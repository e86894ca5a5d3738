/// Bad input, reported in one line: what, where, what it was, what it should be.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/core.h>

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

/// Throws Error with a formatted message unless the claim holds. Arguments are evaluated always: keep them cheap.
template <class... Args>
void require(bool claim, fmt::format_string<Args...> format, Args&&... args) {
  if (!claim) [[unlikely]]
    throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace fovea
