/// What an error says.
#pragma once
#include <functional>
#include <string>

#include "tensor/error.h"

namespace fovea {

/// The message of the Error that the action throws, or "no error".
inline std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace fovea
