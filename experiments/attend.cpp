// Any attention method on tensors from a file.
#include "experiments/support/attend/attend.h"

#include "experiments/support/program/program.h"

int main(int argc, char** argv) { return fovea::run("attend", argc, argv, fovea::attend_program); }
