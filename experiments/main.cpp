// The main function of the tasks' programs. Each is linked with the page that registers it, sequences.cpp for example,
// and compiled with its name, FOVEA_TASK, so that it may be installed under another one.
#include "experiments/support/analysis/run_task.h"

int main(int argc, char** argv) { return fovea::run_task(FOVEA_TASK, argc, argv); }
