#include "experiments/support/program/program.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/core.h>
#include <omp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "experiments/support/program/interrupt.h"
#include "experiments/support/program/ninja.h"
#include "experiments/support/program/start_together.h"
#include "experiments/support/text/words.h"
#include "nn/parallel/process_group.h"
#include "tensor/error.h"
#include "tensor/support/control_groups.h"
#include "tensor/support/in_quotes.h"
#include "tensor/support/suggestion.h"

namespace fovea {
namespace {

enum ExitStatus {
  done = 0,
  internal_error = 1,
  checks_failed = 1,
  can_be_put_right = 2,
  process_lost = 3,
  stopped_by_signal = 128,
  reader_gone = 141
};

/// Joins the other processes, if mpirun started several, and leaves the group again. Only the first process prints: the
/// standard output and error of the others go nowhere, except for an error that is theirs alone.
class SharedProgram {
 public:
  void start() {
    try {
      start_processes();
    } catch (...) {  // the same error in all of them, most often
      rank_ = rank_on_this_machine();
      if (rank_ > 0) print_nothing();
      throw;
    }
    rank_ = processes().rank();
    if (processes().is_first()) return print_on_terminal();
    print_nothing();
  }

  /// Prints an error as one line. If all processes have the same error, the first one prints it and ends the others
  /// before they do. A lost process is reported by one process only, at once. A stop by a signal is known to all.
  void print_error(const std::string& program, const std::string& message, int status) const {
    std::string line = fmt::format("{}: {}\n", program, message);
    int to = STDERR_FILENO;
    if (own_stderr_ >= 0) {
      if (status > stopped_by_signal) return;
      if (status != process_lost) std::this_thread::sleep_for(std::chrono::seconds(3));
      line = fmt::format("{}: process {}: {}\n", program, rank_, message);
      to = own_stderr_;
    }
    [[maybe_unused]] const ssize_t written = ::write(to, line.data(), line.size());
  }

  /// Leaves the group. An error ends all processes; a stop by a signal, to which all processes agree, waits for them.
  void end(int status) const {
    const bool is_agreed = status == done || status > stopped_by_signal;
    if (!is_agreed) abort_processes(status);
    finish_processes();
  }

 private:
  static void print_on_terminal() {
    const char* terminal = std::getenv(terminal_variable);
    const int opened = terminal && processes().size() > 1 ? ::open(terminal, O_RDWR | O_NOCTTY) : -1;
    if (opened < 0) return;
    ::dup2(opened, STDERR_FILENO);
    if (::isatty(STDOUT_FILENO)) ::dup2(opened, STDOUT_FILENO);
    ::close(opened);
  }

  void print_nothing() {
    own_stderr_ = ::dup(STDERR_FILENO);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
    ::close(nowhere);
  }

  int rank_ = 0, own_stderr_ = -1;
};

SharedProgram& shared_program() {
  static SharedProgram program;
  return program;
}

/// Prints the message on standard error as one line, and returns `status`.
int complain(const std::string& program, std::string message, int status) {
  std::ranges::replace(message, '\n', ' ');
  std::fflush(stdout);
  shared_program().print_error(program, without_middle(message), status);
  return status;
}

/// Flushes standard output and returns the exit status: `status`, or that of a full disk or of a reader that is gone.
int flush_output(const std::string& program, int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  if (errno == EPIPE || (::poll(&output, 1, 0) == 1 && (output.revents & POLLERR))) return reader_gone;
  if (status != done) return status;  // the program has already explained why
  const std::string reason =
      errno != 0 ? std::generic_category().message(errno) : "an earlier write failed; is the disk full?";
  return complain(program, "standard output: " + reason, can_be_put_right);
}

/// Opens /dev/null in place of standard input, output and error where the caller has closed them. Otherwise the next
/// file that the program opens would get the free number, and messages would be written into that file. Returns whether
/// standard output was open.
bool open_standard_files() {
  bool has_output = true;
  for (int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) >= 0) continue;
    has_output &= number != STDOUT_FILENO;
    [[maybe_unused]] const int opened = ::open("/dev/null", O_RDWR);  // open() takes the smallest free number
  }
  return has_output;
}

/// Lets OpenMP start no more threads than a container's quota gives processors for, unless the user has chosen a
/// number.
void respect_quota() {
  if (!std::getenv("OMP_NUM_THREADS")) omp_set_num_threads(std::min(omp_get_max_threads(), processors_of_quota()));
}

int guarded(const std::string& program, const std::function<void()>& body) {
  try {
    body();
    return done;
  } catch (const HelpShown&) {
    return done;
  } catch (const Interrupted& stop) {
    return complain(program, stop.what(), stop.exit_status());
  } catch (const LostProcess& error) {
    return complain(program, error.what(), process_lost);
  } catch (const ChecksFailed& error) {
    return complain(program, error.what(), checks_failed);
  } catch (const Error& error) {
    return complain(program, error.what(), can_be_put_right);
  } catch (const std::bad_alloc&) {
    return complain(program, "out of memory: a smaller batch, model or length needs less", can_be_put_right);
  } catch (const std::filesystem::filesystem_error& error) {
    return complain(program, fmt::format("{}: {}", error.path1().string(), error.code().message()), can_be_put_right);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe) return reader_gone;
    if (std::ferror(stdout)) return complain(program, "standard output: " + error.code().message(), can_be_put_right);
    if (error.code() == std::errc::resource_unavailable_try_again)
      return complain(program, "threads: the system starts no more of them (ulimit -u, or a container's limit)",
                      can_be_put_right);
    return complain(program, error.what(), can_be_put_right);
  } catch (const std::exception& error) {
    return complain(program, fmt::format("internal error: {}", error.what()), internal_error);
  }
}

bool is_crowded() {
  std::ifstream file("/proc/loadavg");
  std::string line;
  std::getline(file, line);
  return others_take_processors(line, omp_get_max_threads(), omp_get_num_procs());
}

/// Before main(). A thread that waits for work spins for a while before it sleeps, and beside other programs that time
/// is theirs: `benchmark step` makes 3 times as many steps with short spinning (GOMP_SPINCOUNT=1000), which costs up to
/// a tenth on processors that are free (results/measurements.md). libgomp reads the number when it is loaded, so that
/// the program begins again.
[[gnu::constructor]] void spin_briefly_beside_others(int, char** argv, char**) {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  for (int look = 0; look < 3; ++look) {  // a shell that has just started this program runs, too
    if (!is_crowded()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::setenv("GOMP_SPINCOUNT", "1000", 0);
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) ::execv(self.c_str(), argv);  // where it fails, the program goes on
}

}  // namespace

bool others_take_processors(const std::string& loadavg, int threads, int processors) {
  const std::vector<std::string_view> fields = split_columns(loadavg, ' ');
  const auto running = fields.size() > 3 ? leading_number<int>(fields[3]) : std::nullopt;
  return running && *running - 1 + threads > processors;
}

int run(const std::string& program, int argc, const char* const* argv, const std::function<void(Cli&)>& body) {
  std::signal(SIGPIPE, SIG_IGN);  // a write then fails with an error, and unfinished files can be removed
  std::signal(SIGXFSZ, SIG_IGN);  // likewise, at the limit of a file's size
  // A program that another one has started through ninja ends, with a checkpoint, if that is killed.
  if (std::getenv(ends_with_parent_variable)) ::prctl(PR_SET_PDEATHSIG, SIGHUP);
  const bool has_output = open_standard_files();
  respect_quota();
  int status = guarded(program, [&] {
    require(has_output, "standard output is closed; redirect it to a file or to /dev/null");
    shared_program().start();
    Cli cli(program, argc, argv);
    body(cli);
  });
  status = flush_output(program, status);
  const int ended = guarded(program, [&] { shared_program().end(status); });
  if (ended != done) abort_processes(ended);
  return ended == done ? status : ended;
}

int run(const std::string& program, int argc, const char* const* argv, const std::vector<Command>& commands) {
  std::string wanted = argc > 1 ? argv[1] : "";
  for (const Command& command : commands) {
    if (command.name == wanted) return run(program + " " + wanted, argc - 1, argv + 1, command.body);
  }
  std::vector<std::string> names;
  std::string list;
  for (const Command& command : commands) {
    names.push_back(command.name);
    list += fmt::format("  {:<16} {}\n", command.name, command.description);
  }
  return run(program, argc, argv, [&](Cli&) {
    if (wanted == "--help" || wanted == "--help-all" || wanted == "-h") {
      fmt::print("usage: {0} COMMAND [flags]\n\n{1}\n{0} COMMAND --help lists its flags.\n", program, list);
      throw HelpShown{};
    }
    require(!wanted.empty(), "a command is missing: one of {}", listed(names, ", "));
    fail("there is no command {}: one of {}{}", in_quotes(wanted), listed(names, ", "), did_you_mean(wanted, names));
  });
}

}  // namespace fovea
