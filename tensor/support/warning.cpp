#include "tensor/support/warning.h"

#include <mutex>
#include <set>

#include <fmt/core.h>

#include "tensor/support/in_quotes.h"

namespace fovea {

namespace {
thread_local bool silent = false;
}  // namespace

void warn(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> said;
  if (silent) return;
  std::lock_guard lock(mutex);
  if (said.insert(text).second) fmt::print(stderr, "warning: {}\n", without_middle(text));
}

NoWarnings::NoWarnings() : before_(silent) { silent = true; }
NoWarnings::~NoWarnings() { silent = before_; }

}  // namespace fovea
