/// The main function of the programs that train. main.cpp is compiled once for each of them and includes nothing else.
#pragma once

namespace fovea {

/// Runs the task of this name, with the arguments of main(), and returns the exit status. A page of the program must
/// have registered the task.
int run_task(const char* name, int argc, char** argv);

}  // namespace fovea
