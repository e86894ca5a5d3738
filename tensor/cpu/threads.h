/// Teams of OpenMP threads on a machine that may refuse them.
#pragma once

namespace fovea {

/// Makes sure that the calling thread's next team can have `count` threads. Throws Error if the system does not start
/// so many, for example under `ulimit -u`: OpenMP itself would then end the process. Must be called before a team that
/// is not parallel_for()'s own, such as oneDNN's.
///
/// Threads do not survive fork(), and OpenMP waits forever for those that it had before. In a child of fork() whose
/// parent had other threads, this function sets OpenMP's number of threads to 1, and available_threads() returns 1.
void prepare_team(int count);

/// Whether this process is the child of fork() in a process that had other threads.
bool is_without_threads();

}  // namespace fovea
