/// Warnings about input that is allowed but rarely intended: one line on standard error.
#pragma once
#include <string>

namespace fovea {

/// Prints a warning. Each text is printed only once in the life of the process.
void warn(const std::string& text);

/// Silences warn() on the calling thread for the lifetime of this object, for example while a specification is only
/// tried out.
class NoWarnings {
 public:
  NoWarnings();
  ~NoWarnings();
  NoWarnings(const NoWarnings&) = delete;
  NoWarnings& operator=(const NoWarnings&) = delete;

 private:
  bool before_;
};

}  // namespace fovea
