/// The programs of experiments/ in processes of their own, as a user calls them.
#pragma once
#include <string>
#include <vector>

#include <fcntl.h>

#include "tests/files.h"

namespace fovea {

/// How a program ended.
struct Ended {
  int status;  ///< minus the signal, if one ended it
  std::string out, err;
};

/// Runs the built program ("translate") with these flags, on one thread, after `input` on standard input.
inline Ended ended(const std::string& program, const std::vector<std::string>& flags, const std::string& input = "") {
  Folder folder;
  std::ofstream(folder / "in") << input;
  const std::string path = FOVEA_PROGRAMS "/" + program;
  const int status = status_in_child([&] {
    auto redirect = [&](const char* name, int to) {
      return ::dup2(::open((folder / name).c_str(), O_RDWR | O_CREAT, 0666), to) == to;
    };
    if (!redirect("in", STDIN_FILENO) || !redirect("out", STDOUT_FILENO) || !redirect("err", STDERR_FILENO)) return 99;
    ::setenv("OMP_NUM_THREADS", "1", 1);
    std::vector<std::string> arguments{program};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    ::execv(path.c_str(), pointers.data());
    return 98;
  });
  return {status, contents(folder / "out"), contents(folder / "err")};
}

inline std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
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
