/// Looking at the tape: as text, and as a drawing for Graphviz.
#pragma once
#include <string>

#include "autograd/variable.h"

namespace fovea {

/// The part of the tape that `root` was made from, one line per node in creation order: number, operation, inputs,
/// shape, bytes, scope, and, for nodes recorded under KeepValues, small values.
std::string tape_text(const Variable& root);

/// The same as a Graphviz digraph: `dot -Tsvg` draws it. Leaves are boxes, operations ellipses.
std::string tape_graphviz(const Variable& root);

/// A tensor's values in rows, aligned: at most `limit` elements, then an ellipsis.
std::string values_text(const Tensor& x, std::int64_t limit = 64);

}  // namespace fovea
