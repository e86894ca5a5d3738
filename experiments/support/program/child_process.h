/// Programs of this project as child processes.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "experiments/support/program/progress.h"

namespace fovea {

/// One call of a program, whose standard output and standard error go to a file.
struct Call {
  std::string name;
  std::vector<std::string> words;  ///< the program's name and its arguments
  std::filesystem::path output;
  int threads = 1;
};

/// Runs the calls, at most `jobs` at a time. next() returns the next call that can be made now:
/// null if there is none before another one ends, or at all. ended(call, status) is called for each that ends; a
/// negative status is minus the signal that ended it. After Ctrl-C nothing new is started; the running programs
/// are told to stop, and waited for. Children end when this process does, also if it is killed. With `reported`, the
/// progress of the children is reported(call, progress) instead of text in their output.
void run_calls(int jobs, const std::function<const Call*()>& next,
               const std::function<void(const Call&, int status)>& ended,
               const std::function<void(const Call&, const ProgressReport&)>& reported = {});

}  // namespace fovea
