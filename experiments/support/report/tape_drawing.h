/// The tape as a picture: operations in layers, above those that use their results.
#pragma once
#include <string>
#include <vector>

#include "autograd/tape.h"

namespace fovea {

/// An <svg> element. `nodes` are in the order of tape_graph(); the last one is at the bottom.
std::string svg(const std::string& title, const std::vector<TapeNode>& nodes);

}  // namespace fovea
