/// --processes N: one command that starts several processes on this machine, which then train together.
#pragma once
#include <string>
#include <vector>

namespace fovea {

/// Starts `mpirun`, which runs this program `count` times with these arguments, waits for it, and ends this process
/// with its exit status. In a process that mpirun has started, does nothing. Throws Error if there is no mpirun, or if
/// another number of processes was started.
///
/// mpirun itself would leave its processes a second after Ctrl-C. This process therefore turns the signals that stop a
/// training into SIGUSR1, which mpirun passes on: the processes finish their update, and the first one writes a
/// checkpoint. A second signal ends them at once. The exit status is that of a single process.
void start_together(int count, const std::vector<std::string>& arguments);

/// The environment variable with the terminal of the process that called start_together(). The first of the processes
/// prints there, and not through mpirun, so that its progress is shown as that of a single process.
inline constexpr const char* terminal_variable = "FOVEA_TERMINAL";

}  // namespace fovea
