/// The tape, the graph of recorded operations: as text, and as nodes for a drawing.
#pragma once
#include <string>
#include <vector>

#include "autograd/variable.h"

namespace fovea {

/// Lists the operations that `root` depends on, one line per node, inputs before results: number, operation, inputs,
/// shapes and bytes of its results, and its scope. For nodes recorded under KeepValues, the values of the results
/// follow (values_text()).
std::string tape_text(const Variable& root);

/// An operation of the tape, or a leaf.
struct TapeNode {
  std::vector<std::string> lines;   ///< number and operation, or the name of the leaf; then shapes and values
  std::vector<std::size_t> inputs;  ///< places in the list of nodes
  bool is_leaf = false;
};

/// The operations that `root` depends on and their leaves, inputs before results. For nodes recorded under KeepValues,
/// the values of the results are among the lines.
std::vector<TapeNode> tape_graph(const Variable& root);

/// The values of `x` as text, in aligned rows. After `limit` elements the text ends in " ...".
std::string values_text(const Tensor& x, std::int64_t limit = 64);

}  // namespace fovea
