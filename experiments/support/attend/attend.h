/// The program of experiments/attend.cpp, for tests too.
#pragma once
#include "experiments/support/program/cli.h"

namespace fovea {

void attend_program(Cli& cli);

}  // namespace fovea
