/// The tape as a picture: operations in layers, above those that use their results.
#pragma once
#include <string>
#include <vector>

#include "autograd/tape.h"

namespace fovea {

/// An <svg> element. `graph` is in the order of tape_graph(); its last node is at the bottom. A leaf is drawn for each
/// of its uses.
std::string svg(const std::string& title, const std::vector<TapeNode>& graph);

}  // namespace fovea
