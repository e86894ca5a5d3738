#include "experiments/support/program/start_together.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nn/parallel/process_group.h"
#include "tensor/error.h"

namespace fovea {

namespace {

constexpr int not_started = 127;

volatile std::sig_atomic_t latest_signal = 0, signals = 0;

extern "C" void count_signal(int signal) {
  latest_signal = signal;
  signals = signals + 1;
}

/// The signals that stop a training; one that this process ignored from its start stays ignored.
void count_signals() {
  for (int stopping : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    struct sigaction before = {}, counting = {};
    ::sigaction(stopping, nullptr, &before);
    counting.sa_handler = count_signal;
    if (before.sa_handler != SIG_IGN) ::sigaction(stopping, &counting, nullptr);
  }
}

/// Waits for mpirun and returns its status. After a signal, sends SIGUSR1 again and again: mpirun passes it to the
/// processes that it has started so far, which note it once. After a second one, kills mpirun; its processes then end.
int waited_for(pid_t mpirun) {
  using namespace std::chrono_literals;
  constexpr auto pause = 20ms;
  constexpr int pauses_between_signals = 25;
  bool is_ended = false;
  for (int pauses = 0;; ++pauses) {
    int status = 0;
    if (::waitpid(mpirun, &status, WNOHANG) != 0) return status;
    std::this_thread::sleep_for(pause);
    const bool is_second = signals > 1 && latest_signal != SIGHUP;
    if (signals == 0 || is_ended || (pauses < pauses_between_signals && !is_second)) continue;
    is_ended = is_second;
    ::kill(mpirun, is_ended ? SIGKILL : SIGUSR1);
    pauses = 0;
  }
}

/// In the child: becomes mpirun. It is in a process group of its own, which the terminal's Ctrl-C does not reach.
[[noreturn]] void become(std::vector<std::string>& words) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::setpgid(0, 0);
  ::setenv("GOMP_SPINCOUNT", "1000", 0);  // threads that spin for long would take the cores of the other processes
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  ::_exit(not_started);
}

std::vector<std::string> command(int count, const std::vector<std::string>& arguments) {
  // More processes than cores are slow, but right. The threads of a process may use any core.
  std::vector<std::string> words{"mpirun",          "--quiet",   "-n",  std::to_string(count),
                                 "--oversubscribe", "--bind-to", "none"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");  // as in containers, where there is no other user
  if (const char* terminal = ::isatty(STDERR_FILENO) ? ::ttyname(STDERR_FILENO) : nullptr)
    words.insert(words.end(), {"-x", std::string(terminal_variable) + "=" + terminal});
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

}  // namespace

void start_together(int count, const std::vector<std::string>& arguments) {
  const int running = processes().size();
  require(running == 1 || running == count,
          "--processes {}: mpirun has started {} processes; leave the flag out, or start one process without mpirun",
          count, running);
  if (running > 1) return;
  std::vector<std::string> words = command(count, arguments);
  const pid_t child = ::fork();
  require(child >= 0, "--processes {}: {}", count, std::generic_category().message(errno));
  if (child == 0) become(words);
  count_signals();
  const int status = waited_for(child);
  require(!WIFEXITED(status) || WEXITSTATUS(status) != not_started,
          "--processes {}: mpirun cannot be started; install openmpi-bin and libopenmpi-dev, and build again "
          "(experiments/setup --mpi does both)",
          count);
  if (signals > 0 && status != 0) std::_Exit(128 + latest_signal);
  require(!WIFSIGNALED(status), "--processes {}: mpirun was killed by signal {}; the run stops", count,
          WTERMSIG(status));
  std::_Exit(WEXITSTATUS(status));
}

}  // namespace fovea
