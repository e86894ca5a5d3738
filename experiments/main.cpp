// The main function of the tasks' programs. The task is a page of its own: translate.cpp, sentiment.cpp, ...
#include "experiments/support/analysis/task.h"

int main(int argc, char** argv) { return fovea::run_task(argc, argv); }
