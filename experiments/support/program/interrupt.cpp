#include "experiments/support/program/interrupt.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <unistd.h>

namespace fovea {
namespace {

constexpr std::array<int, 2> stopping_signals{SIGINT, SIGTERM};

volatile std::sig_atomic_t caught_signal = 0;
int living_guards = 0;
std::string notice_line;  // changed only while no handler is installed
std::array<struct sigaction, 2> previous_actions;

/// Only calls what POSIX allows in a handler.
extern "C" void remember_signal(int signal) {
  int saved_errno = errno;
  caught_signal = signal;
  for (int stopping : stopping_signals) std::signal(stopping, SIG_DFL);  // the second one ends the process
  [[maybe_unused]] auto written = ::write(STDERR_FILENO, notice_line.data(), notice_line.size());
  errno = saved_errno;
}

bool is_ignored(const struct sigaction& action) { return action.sa_handler == SIG_IGN; }

}  // namespace

InterruptGuard::InterruptGuard(std::string notice) {
  if (living_guards++ > 0) return;
  caught_signal = 0;
  // a terminal shows ^C and perhaps a progress bar on this line
  notice_line = (::isatty(STDERR_FILENO) ? "\r\x1b[K" : "") + std::move(notice) + "\n";
  struct sigaction action = {};
  action.sa_handler = remember_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < stopping_signals.size(); ++i) {
    ::sigaction(stopping_signals[i], nullptr, &previous_actions[i]);
    if (!is_ignored(previous_actions[i])) ::sigaction(stopping_signals[i], &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  if (--living_guards > 0) return;
  for (std::size_t i = 0; i < stopping_signals.size(); ++i) {
    ::sigaction(stopping_signals[i], &previous_actions[i], nullptr);
  }
}

bool interrupted() { return caught_signal != 0; }

Interrupted::Interrupted(std::string message)
    : message_(std::move(message)), signal_(caught_signal != 0 ? int(caught_signal) : SIGINT) {}

}  // namespace fovea
