/// Warnings about input that is allowed but rarely intended: one line on standard error.
#pragma once
#include <string>

namespace fovea {

/// Says each text once in the life of the process.
void warn(const std::string& text);

/// While one lives this thread says nothing: for what is only tried out.
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
