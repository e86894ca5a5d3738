/// --processes N: one command that starts several processes on this machine.
#pragma once
#include <string>
#include <vector>

namespace fovea {

/// Replaces this program by `mpirun`, which starts it `count` times with these arguments; in the processes that mpirun
/// has started, does nothing. Throws Error if there is no mpirun, or if another number of processes was started.
void become_processes(int count, const std::vector<std::string>& arguments);

}  // namespace fovea
