/// The program experiments/attend as a function, so that tests can call it.
#pragma once
#include "experiments/support/program/cli.h"

namespace fovea {

void attend_program(Cli& cli);

}  // namespace fovea
