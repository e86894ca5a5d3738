#include "experiments/support/program/interrupt.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <unistd.h>

namespace fovea {
namespace {

constexpr std::array<int, 4> stopping_signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

volatile std::sig_atomic_t caught_signal = 0;
int living_guards = 0;
std::string notice_line;  // changed only while no handler is installed
std::array<struct sigaction, stopping_signals.size()> previous_actions;

bool is_ignored(const struct sigaction& action) { return action.sa_handler == SIG_IGN; }

/// Calls only functions that POSIX allows in a handler.
extern "C" void remember_signal(int signal) {
  // The kernel may send SIGHUP once for each thread of a parent that was killed (PR_SET_PDEATHSIG in program.cpp), and
  // mpirun may pass SIGUSR1 on several times: only the first signal counts.
  if ((signal == SIGHUP || signal == SIGUSR1) && caught_signal != 0) return;
  int saved_errno = errno;
  caught_signal = signal;
  for (std::size_t i = 0; i < stopping_signals.size(); ++i) {
    const bool is_order = stopping_signals[i] == SIGINT || stopping_signals[i] == SIGTERM;
    if (is_order && !is_ignored(previous_actions[i])) std::signal(stopping_signals[i], SIG_DFL);  // ends the process
  }
  [[maybe_unused]] auto written = ::write(STDERR_FILENO, notice_line.data(), notice_line.size());
  errno = saved_errno;
}

/// The handler's frame must not lie where the stack pointer points: oneDNN's matrix products (2.6, AVX-512) let it
/// point into buffers of theirs, behind which the heap would be overwritten.
void give_handlers_a_stack() {
  static std::array<char, 1 << 16> room;  // a frame holds all registers: 11 KiB with AMX
  stack_t stack = {};
  if (::sigaltstack(nullptr, &stack) != 0 || !(stack.ss_flags & SS_DISABLE)) return;  // a sanitizer has made one
  stack = {};
  stack.ss_sp = room.data();
  stack.ss_size = room.size();
  ::sigaltstack(&stack, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard(std::string notice) {
  if (living_guards++ > 0) return;
  caught_signal = 0;
  // a terminal shows ^C and perhaps a progress bar on this line
  notice_line = notice.empty() ? "" : (::isatty(STDERR_FILENO) ? "\r\x1b[K" : "") + std::move(notice) + "\n";
  give_handlers_a_stack();
  struct sigaction action = {};
  action.sa_handler = remember_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  for (std::size_t i = 0; i < stopping_signals.size(); ++i) {
    ::sigaction(stopping_signals[i], nullptr, &previous_actions[i]);
    if (!is_ignored(previous_actions[i])) ::sigaction(stopping_signals[i], &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  if (--living_guards > 0) return;
  for (std::size_t i = 0; i < stopping_signals.size(); ++i) {
    // mpirun may pass SIGUSR1 on once more while other processes still write what they have.
    if (stopping_signals[i] == SIGUSR1 && caught_signal == SIGUSR1)
      std::signal(SIGUSR1, SIG_IGN);
    else
      ::sigaction(stopping_signals[i], &previous_actions[i], nullptr);
  }
}

bool interrupted() { return caught_signal != 0; }
int interrupting_signal() { return caught_signal; }
void note_interruption(int signal) {
  if (signal != 0) caught_signal = signal;
}

Interrupted::Interrupted(const std::string& message)
    : std::runtime_error(message), signal_(caught_signal != 0 ? int(caught_signal) : SIGINT) {}

}  // namespace fovea
