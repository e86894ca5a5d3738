/// Printing the tape, the graph of recorded operations: as text, and as a drawing for Graphviz.
#pragma once
#include <string>

#include "autograd/variable.h"

namespace fovea {

/// Lists the operations that `root` depends on, one line per node, inputs before results: number, operation, inputs,
/// shapes and bytes of its results, and its scope. For nodes recorded under KeepValues, the values of the results
/// follow (values_text()).
std::string tape_text(const Variable& root);

/// The operations that `root` depends on, as a Graphviz digraph, which `dot -Tsvg` draws. Leaves are boxes, operations
/// ellipses.
std::string tape_graphviz(const Variable& root);

/// The values of `x` as text, in aligned rows. After `limit` elements the text ends in " ...".
std::string values_text(const Tensor& x, std::int64_t limit = 64);

}  // namespace fovea
