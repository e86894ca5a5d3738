// The main function of the tasks' programs. Each is linked with the page that registers it: sequences.cpp, ...
#include "experiments/support/analysis/task.h"

int main(int argc, char** argv) { return fovea::run_task(argc, argv); }
