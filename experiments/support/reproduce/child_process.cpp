#include "experiments/support/reproduce/child_process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "experiments/support/program/interrupt.h"
#include "tensor/error.h"

namespace fovea {

namespace {

/// The programs lie beside this one.
std::filesystem::path program_path(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

pid_t start(const Call& call) {
  const std::string path = program_path(call.words.front()).string();
  std::filesystem::create_directories(call.output.parent_path());
  std::vector<char*> arguments;
  for (const std::string& word : call.words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int output = ::open(call.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  require(output >= 0, "{}: cannot be written: {}", call.output.string(), std::generic_category().message(errno));
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);                     // a terminal's Ctrl-C reaches this program alone, which passes it on once
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // if this program is killed, so are its children
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::setenv("OMP_NUM_THREADS", "1", 1);
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    ::execv(path.c_str(), arguments.data());
    ::dprintf(STDERR_FILENO, "%s: cannot be run: build it with `ninja -C build programs`\n", path.c_str());
    ::_exit(127);
  }
  ::close(output);
  require(child > 0, "cannot start {}: {}", path, std::generic_category().message(errno));
  return child;
}

}  // namespace

void run_calls(int jobs, const std::function<const Call*()>& next,
               const std::function<void(const Call&, int status)>& ended) {
  InterruptGuard guard("stopping when the running programs have written their checkpoints");
  std::map<pid_t, const Call*> running;
  struct StopAll {  // an exception, for example of a full disk, leaves no program behind
    std::map<pid_t, const Call*>& running;
    ~StopAll() {
      for (const auto& [child, call] : running) ::kill(child, SIGTERM);
      for (const auto& [child, call] : running) ::waitpid(child, nullptr, 0);
    }
  } stop_all{running};
  bool is_stopping = false;
  while (true) {
    while (!interrupted() && std::ssize(running) < jobs) {
      const Call* call = next();
      if (!call) break;
      running[start(*call)] = call;
    }
    if (running.empty()) return;
    if (interrupted() && !std::exchange(is_stopping, true))
      for (const auto& [child, call] : running) ::kill(child, SIGINT);
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, WNOHANG);
    auto found = running.find(child);
    if (found == running.end()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    const Call* call = found->second;
    running.erase(found);
    ended(*call, WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
  }
}

}  // namespace fovea
