/// The main function of every program: one-line errors and exit statuses.
///
///   int main(int argc, char** argv) {
///     return run("agreement", argc, argv, [](Cli& cli) {
///       TrainingOptions training; cli.add(training);
///       cli.parse();
///       ...
///     });
///   }
#pragma once
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/support/program/cli.h"

namespace fovea {

/// Whether other programs take some of the processors that this many threads would run on, by the content of
/// /proc/loadavg: "0.52 0.58 0.59 3/1024 12345" says that 3 threads run, one of which reads the file.
bool others_take_processors(const std::string& loadavg, int threads, int processors);

/// Thrown by a program whose purpose is to check something.
struct ChecksFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs a program's body and turns what it throws into one line on standard error and an exit status:
///   0    done, or --help
///   1    an internal error, which is a bug in fovea, or ChecksFailed: what the program checks does not hold
///   2    something the user can put right: Error (flags, files, shapes), a file system's refusal, out of memory
///   3    another one of the processes that train together has died
///   130  stopped by Ctrl-C (143 by SIGTERM, 129 by SIGHUP), from Interrupted
///   141  the reader of standard output is gone (`... | head`): nothing is printed
int run(const std::string& program, int argc, const char* const* argv, const std::function<void(Cli&)>& body);

/// A command of a program that has several: `benchmark gemm`.
struct Command {
  std::string name, description;
  std::function<void(Cli&)> body;
};

/// Runs `program COMMAND [flags]` in the same way; each command has its own flags and --help.
int run(const std::string& program, int argc, const char* const* argv, const std::vector<Command>& commands);

}  // namespace fovea
