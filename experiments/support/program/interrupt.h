/// Ctrl-C makes a long run stop at its next step, where it can write a checkpoint.
#pragma once
#include <stdexcept>
#include <string>

namespace fovea {

/// While a guard exists, the first Ctrl-C (SIGINT), SIGTERM, SIGHUP or SIGUSR1 prints `notice`, unless it is empty, on
/// standard error and makes interrupted() true; a second SIGINT or SIGTERM ends the process at once. SIGHUP says that
/// the terminal or the parent is gone, perhaps several times; schedulers of clusters announce the end of a job with
/// SIGUSR1, and mpirun passes it on. The destructor restores the previous handlers, but for a SIGUSR1
/// that has arrived, which is ignored from then on. Guards may be nested: only the
/// outermost has an effect. A signal that the process ignored from its start stays ignored.
class InterruptGuard {
 public:
  static constexpr const char* usual_notice = "stopping at the next step (Ctrl-C again ends at once)";
  explicit InterruptGuard(std::string notice = usual_notice);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

/// Whether a signal has arrived since the construction of the outermost guard (if there is none, of the last one).
/// Cheap enough to be polled at every step.
bool interrupted();

/// The signal that made interrupted() true; 0 if there is none.
int interrupting_signal();
/// Makes interrupted() true because another process of the same program received `signal`. Does nothing for 0.
void note_interruption(int signal);

/// Thrown by a loop that stopped because of interrupted(). run() prints the message, such as the command that resumes,
/// and exits with 128 + the signal, as shells expect of interrupted programs.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(const std::string& message);
  int exit_status() const { return 128 + signal_; }

 private:
  int signal_;
};

}  // namespace fovea
