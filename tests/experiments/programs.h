/// The programs of experiments/ in processes of their own, as a user calls them.
#pragma once
#include <csignal>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <fcntl.h>

#include "tests/files.h"

namespace fovea {

/// How a program ended.
struct Ended {
  int status;  ///< minus the signal, if one ended it
  std::string out, err;
};

inline std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// A program of this build ("translate") that runs beside the test, after `input` on standard input.
class Process {
 public:
  Process(const std::string& program, const std::vector<std::string>& flags, const std::string& input = "",
          const char* threads = "1") {
    std::ofstream(folder_ / "in") << input;
    std::fflush(nullptr);  // or the child would write it again
    child_ = ::fork();
    if (child_ != 0) return;
    for (const auto& [name, to] : {std::pair("in", STDIN_FILENO), {"out", STDOUT_FILENO}, {"err", STDERR_FILENO}})
      if (::dup2(::open((folder_ / name).c_str(), O_RDWR | O_CREAT, 0666), to) != to) ::_exit(99);
    ::setenv("OMP_NUM_THREADS", threads, 1);
    std::vector<std::string> arguments = joined({program}, flags);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    ::execv((FOVEA_PROGRAMS "/" + program).c_str(), pointers.data());
    ::_exit(98);
  }
  ~Process() {
    if (child_ > 0) signal(SIGKILL), end();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int signal) const {
    require(child_ > 0, "the process has ended");
    ::kill(child_, signal);
  }
  /// Waits for its end.
  Ended end() {
    int status = 0;
    ::waitpid(std::exchange(child_, -1), &status, 0);
    return {WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status), contents(folder_ / "out"),
            contents(folder_ / "err")};
  }

 private:
  Folder folder_;
  pid_t child_ = -1;
};

/// Runs the program with these flags, on one thread, after `input` on standard input.
inline Ended ended(const std::string& program, const std::vector<std::string>& flags, const std::string& input = "") {
  return Process(program, flags, input).end();
}

/// The program that has ended, which must have succeeded.
inline Ended succeeded(Ended program) {
  BOOST_TEST_REQUIRE(program.status == 0, program.err);
  return program;
}

/// The message of a program that has ended, which must be an error that its user can correct.
inline std::string refusal_of(const Ended& program) {
  BOOST_TEST(program.status == 2, program.out);
  return program.err;
}

/// Polls for at most a minute.
inline bool becomes_true(const std::function<bool()>& claim) {
  for (int k = 0; k < 6000; ++k) {
    if (claim()) return true;
    ::usleep(10'000);
  }
  return false;
}

/// Flags of generated sentence pairs for `translate`.
inline const std::string few_sentences = "generated:train=60,dev=10,test=12,phrases=1-2,words=4";

/// Flags of a small sequence model and four updates.
inline std::vector<std::string> tiny(const std::string& out, const std::vector<std::string>& more = {}) {
  return joined({"--model-dim", "8", "--heads", "2", "--feed-forward-dim", "8", "--updates", "4", "--layers", "1",
                 "--evaluate-every", "2", "--checkpoint-every", "1", "--min-count", "1", "--out", out},
                more);
}

/// Flags of a small classifier of generated sentences and two updates.
inline std::vector<std::string> tiny_classifier(const std::string& out, const std::vector<std::string>& more = {}) {
  return joined({"--data", "generated:train=100,dev=20,test=20", "--model-dim", "8", "--feed-forward-dim", "8",
                 "--updates", "2", "--out", out},
                more);
}

}  // namespace fovea
