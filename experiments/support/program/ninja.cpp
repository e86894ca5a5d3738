#include "experiments/support/program/ninja.h"

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "experiments/support/program/interrupt.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

/// The text with '$' before each character that has a meaning for ninja.
std::string escaped(const std::string& text, const char* special) {
  std::string result;
  for (const char c : text) {
    if (std::string_view(special).find(c) != std::string_view::npos) result += '$';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

std::string path_text(const std::filesystem::path& path) { return escaped(path.string(), "$ :|"); }

}  // namespace

std::string ninja_file(const std::vector<NinjaStep>& steps, const std::filesystem::path& directory) {
  std::string text = fmt::format("builddir = {}\nrule run\n  command = $words\n  description = $title\n",
                                 escaped(directory.string(), "$"));
  for (const NinjaStep& step : steps) {
    text += fmt::format("build {}: run", path_text(step.output));
    for (const auto& input : step.inputs) text += " " + path_text(input);
    text += fmt::format("\n  words = {}\n  title = {}\n", escaped(step.command, "$"), escaped(step.description, "$"));
  }
  return text;
}

bool run_ninja(const std::filesystem::path& file, int jobs) {
  const std::string number = std::to_string(jobs), path = file.string();
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);                     // a terminal's Ctrl-C reaches the parent alone, which passes it on once
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // if the parent is killed, ninja stops the commands
    if (::getppid() != parent) ::_exit(1);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);  // results on standard output stay clean
    ::execlp("ninja", "ninja", "-f", path.c_str(), "-j", number.c_str(), "-k", "0", nullptr);
    ::_exit(127);
  }
  require(child > 0, "ninja cannot be started: {}", std::generic_category().message(errno));
  InterruptGuard guard("stopping when the running programs have written their checkpoints");
  int status = 0;
  for (bool is_stopping = false; ::waitpid(child, &status, WNOHANG) == 0;) {
    if (interrupted() && !std::exchange(is_stopping, true)) ::kill(child, SIGINT);
    ::usleep(20'000);
  }
  if (interrupted()) throw Interrupted("stopped; the same command continues");
  require(!WIFEXITED(status) || WEXITSTATUS(status) != 127,
          "ninja cannot be run; it is in the package ninja-build, or the module ninja of Python");
  return status == 0;
}

std::string program_command(std::vector<std::string> words, const std::filesystem::path& output, int threads) {
  words.front() = path_of_program(words.front()).string();
  std::string command = fmt::format("exec env {}=1 OMP_NUM_THREADS={} GOMP_SPINCOUNT=${{GOMP_SPINCOUNT:-1000}}",
                                    ends_with_parent_variable, threads);
  for (const std::string& word : words) command += " " + quoted_for_shell(word);
  // ninja reads a command's pipe to its end, and then waits for the process without attending to other commands: the
  // program must hold the pipe open, as descriptor 3, until it ends
  return command + " 3>&1 >" + quoted_for_shell(output.string()) + " 2>&1";
}

std::filesystem::path path_of_program(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

}  // namespace fovea
