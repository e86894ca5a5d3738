/// The main function of the tasks' programs, in a header of its own: all that main.cpp, compiled for each, needs.
#pragma once

namespace fovea {

/// Runs the task of this name, with the arguments of main(), and returns the exit status. A page of the program must
/// have registered the task.
int run_task(const char* name, int argc, char** argv);

}  // namespace fovea
