/// Ctrl-C asks a long run to stop at the next step, where it can leave a checkpoint.
#pragma once
#include <exception>
#include <string>
#include <utility>

namespace fovea {

/// While one lives, the first Ctrl-C (SIGINT) or SIGTERM says `notice` on standard error and only makes interrupted()
/// true; the second ends the process at once, as if no guard were there. The destructor restores what was before.
/// Guards may be nested: the outermost counts. A signal that the process was started to ignore stays ignored.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::string notice = "stopping at the next step (Ctrl-C again ends at once)");
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

/// Whether a signal has come since the outermost living (or last) guard was made. Costs nothing: poll it every step.
bool interrupted();

/// Thrown by a loop that stopped because of interrupted(). run() prints the message (how to resume, say) and exits with
/// 128 + the signal, as shells expect of interrupted programs.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(std::string message);
  const char* what() const noexcept override { return message_.c_str(); }
  int exit_status() const { return 128 + signal_; }

 private:
  std::string message_;
  int signal_;
};

}  // namespace fovea
