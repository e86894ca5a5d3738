/// Runs of an experiment that are made at the same time, each by a child process: the same program with --only K/N.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace fovea {

struct ParallelRun {
  std::string only;   ///< "3/15": the run's number in its experiment
  std::string title;  ///< "gaussian seed 1"
  std::filesystem::path directory;
  std::int64_t updates = 0;
  std::vector<std::string> words = {};  ///< the child's program and arguments
};

/// Why runs failed, by their `only`.
using RunFailures = std::map<std::string, std::string>;

/// How many runs are made at a time, and with how many threads each.
struct Shares {
  int jobs = 1, threads = 1;
};

/// Makes the runs and shows their progress together on standard error. Output of a child is in the file output.txt of
/// its run. Returns for each run that failed the reason: the error, or the signal that killed the
/// child. A training that diverged has a result, and is no failure here. Throws Interrupted after Ctrl-C, when every
/// child has written its checkpoint; `how_to_continue` is the end of the message.
RunFailures make_parallel_runs(const std::vector<ParallelRun>& runs, Shares shares, const std::string& how_to_continue);

}  // namespace fovea
