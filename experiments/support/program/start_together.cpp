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

#include "experiments/support/program/interrupt.h"
#include "nn/parallel/process_group.h"
#include "tensor/error.h"

namespace fovea {

namespace {

constexpr int not_started = 127;

/// Waits for mpirun and returns its status. After a signal, sends SIGUSR1 again and again: mpirun passes it to the
/// processes that it has started so far, which note it once.
int waited_for(pid_t mpirun) {
  using namespace std::chrono_literals;
  constexpr int pauses_between_signals = 25;
  int status = 0;
  for (int pauses = 0; ::waitpid(mpirun, &status, WNOHANG) == 0; ++pauses) {
    std::this_thread::sleep_for(20ms);
    if (interrupted() && pauses % pauses_between_signals == 0) ::kill(mpirun, SIGUSR1);
  }
  return status;
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
  const InterruptGuard guard("");  // the processes print their own notice; if this one is ended, so is mpirun
  const int status = waited_for(child);
  require(!WIFEXITED(status) || WEXITSTATUS(status) != not_started,
          "--processes {}: mpirun cannot be started; install openmpi-bin and libopenmpi-dev, and build again "
          "(experiments/setup --mpi does both)",
          count);
  if (interrupted() && status != 0) std::_Exit(128 + interrupting_signal());
  require(!WIFSIGNALED(status), "--processes {}: mpirun was killed by signal {}; the run stops", count,
          WTERMSIG(status));
  std::_Exit(WEXITSTATUS(status));
}

}  // namespace fovea
