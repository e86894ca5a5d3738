#include "experiments/support/program/start_together.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nn/parallel/process_group.h"
#include "tensor/error.h"

namespace fovea {

namespace {

constexpr int not_started = 127;

volatile pid_t started = 0;

extern "C" void pass_on(int signal) {
  ::kill(started, SIGUSR1);
  std::signal(signal, [](int) { ::kill(started, SIGTERM); });
}

/// In the child: becomes mpirun. It is in a process group of its own, which the terminal's Ctrl-C does not reach.
[[noreturn]] void become(std::vector<std::string>& words) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::setpgid(0, 0);
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
  started = child;
  std::signal(SIGINT, pass_on);
  std::signal(SIGTERM, pass_on);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  require(!WIFEXITED(status) || WEXITSTATUS(status) != not_started,
          "--processes {}: mpirun cannot be started; install openmpi-bin and libopenmpi-dev, and build again "
          "(experiments/setup --mpi does both)",
          count);
  std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

}  // namespace fovea
