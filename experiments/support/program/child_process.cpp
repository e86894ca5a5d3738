#include "experiments/support/program/child_process.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
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

/// A running call, and the pipe through which it reports its progress (none: -1).
struct Child {
  const Call* call = nullptr;
  int reports = -1;
  std::string unread = {};  ///< the beginning of a line
};

/// Replaces this process, which was just forked, by the program of the call.
[[noreturn]] void become(const Call& call, const std::string& path, int output, int reports, pid_t parent) {
  std::vector<char*> arguments;
  for (const std::string& word : call.words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  for (int stopping : {SIGINT, SIGTERM, SIGHUP}) std::signal(stopping, SIG_DFL);
  ::setpgid(0, 0);                    // a terminal's Ctrl-C reaches the parent alone, which passes it on once
  ::prctl(PR_SET_PDEATHSIG, SIGHUP);  // if the parent is killed, its children stop
  if (::getppid() != parent) ::_exit(128 + SIGHUP);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::setenv("OMP_NUM_THREADS", std::to_string(call.threads).c_str(), 1);
  for (const char* of_mpirun : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}) ::unsetenv(of_mpirun);  // the child is alone
  if (reports >= 0) {
    ::fcntl(reports, F_SETFD, 0);
    ::setenv(progress_variable, std::to_string(reports).c_str(), 1);
  } else {
    ::unsetenv(progress_variable);
  }
  ::execv(path.c_str(), arguments.data());
  ::dprintf(STDERR_FILENO, "%s: cannot be run: build it with `ninja -C build programs`\n", path.c_str());
  ::_exit(127);
}

std::pair<pid_t, Child> start(const Call& call, bool reports) {
  const std::string path = program_path(call.words.front()).string();
  std::filesystem::create_directories(call.output.parent_path());
  const int output = ::open(call.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  require(output >= 0, "{}: cannot be written: {}", call.output.string(), std::generic_category().message(errno));
  std::array<int, 2> ends{-1, -1};  // of the pipe: to read, to write; a full pipe must not stop the child
  const bool has_pipe = !reports || ::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0;
  const pid_t parent = ::getpid(), child = has_pipe ? ::fork() : -1;
  if (child == 0) become(call, path, output, ends[1], parent);
  const int error = errno;
  ::close(output);
  if (ends[1] >= 0) ::close(ends[1]);
  require(child > 0, "cannot start {}: {}", path, std::generic_category().message(error));
  return {child, {&call, ends[0]}};
}

/// Reads what the child has reported since the last call.
void read_reports(Child& child, const std::function<void(const Call&, const ProgressReport&)>& reported) {
  if (child.reports < 0) return;
  std::array<char, 4096> bytes;
  for (ssize_t n; (n = ::read(child.reports, bytes.data(), bytes.size())) > 0;)
    child.unread.append(bytes.data(), static_cast<std::size_t>(n));
  std::size_t begin = 0;
  for (std::size_t end; (end = child.unread.find('\n', begin)) != std::string::npos; begin = end + 1)
    if (const auto report = ProgressReport::parse(child.unread.substr(begin, end - begin)))
      reported(*child.call, *report);
  child.unread.erase(0, begin);
}

using Children = std::map<pid_t, Child>;

/// Waits until a child has reported something, at most 20 ms.
void wait_for_reports(const Children& running) {
  std::vector<pollfd> pipes;
  for (const auto& [pid, child] : running)
    if (child.reports >= 0) pipes.push_back({child.reports, POLLIN, 0});
  ::poll(pipes.data(), pipes.size(), 20);
  for (const pollfd& pipe : pipes)
    if (pipe.revents & POLLHUP) return std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it is ending
}

}  // namespace

void run_calls(int jobs, const std::function<const Call*()>& next,
               const std::function<void(const Call&, int status)>& ended,
               const std::function<void(const Call&, const ProgressReport&)>& reported) {
  InterruptGuard guard("stopping when the running programs have written their checkpoints");
  Children running;
  struct StopAll {  // an exception, for example of a full disk, leaves no program behind
    Children& running;
    ~StopAll() {
      for (const auto& [pid, child] : running) ::kill(pid, SIGTERM);
      for (const auto& [pid, child] : running) ::waitpid(pid, nullptr, 0);
      for (const auto& [pid, child] : running)
        if (child.reports >= 0) ::close(child.reports);
    }
  } stop_all{running};
  bool is_stopping = false;
  while (true) {
    while (!interrupted() && std::ssize(running) < jobs) {
      const Call* call = next();
      if (!call) break;
      running.insert(start(*call, static_cast<bool>(reported)));
    }
    if (running.empty()) return;
    if (interrupted() && !std::exchange(is_stopping, true))
      for (const auto& [pid, child] : running) ::kill(pid, SIGINT);
    int status = 0;
    auto found = running.find(::waitpid(-1, &status, WNOHANG));
    for (auto& [pid, child] : running) read_reports(child, reported);
    if (found == running.end()) {
      wait_for_reports(running);
      continue;
    }
    const Child child = found->second;
    running.erase(found);
    if (child.reports >= 0) ::close(child.reports);
    ended(*child.call, WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
  }
}

}  // namespace fovea
